// One item, in a dialog: its facts, its curves and its neighbors under each model.

import { paint, rankAxis } from "./charts.js";
import { rankCurve, rankLine } from "./shapes.js";
import { model, pair, shown, state } from "./state.js";
import { digits, el, modelColumn, named, number } from "./text.js";

const trail = []; // items that were open before, for the way back
let opener = null;

/** Open the card; the focus returns to where it was when the card is closed. */
export function openItem(item) {
  const dialog = document.getElementById("card");
  if (!dialog.open) {
    opener = document.activeElement;
    trail.length = 0;
    dialog.showModal();
  }
  trail.push(item);
  fill(dialog, item);
}

/** The name of an item, which opens its card. */
export function itemLink(item, most = 60) {
  return el("button", { type: "button", class: "link", onclick: () => openItem(item) },
    named(state.report.items.names[item], most));
}

export function prepareCard() {
  const dialog = document.getElementById("card");
  dialog.addEventListener("close", () => {
    dialog.replaceChildren();
    if (opener && opener.isConnected) opener.focus();
  });
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
}

function fill(dialog, item) {
  const { items, data } = state.report;
  const back = el("button", { type: "button", class: "quiet", onclick: () => {
    trail.pop();
    fill(dialog, trail[trail.length - 1]);
  } }, "← Back");
  const close = el("button", { type: "button", class: "quiet", id: "card-close",
    onclick: () => dialog.close() }, "Close");
  const title = el("h2", { id: "card-title", tabindex: "-1" }, named(items.names[item], 6000));
  const id = items.ids[item] && items.ids[item] !== items.names[item]
    ? el("p", { class: "id" }, "id ", named(items.ids[item], 200)) : null;
  const error = el("div", { class: "plot" });
  const own = el("div", { class: "plot" });
  dialog.replaceChildren(el("article", {},
    el("div", { class: "card-bar" }, trail.length > 1 ? back : el("span"), close),
    title, id,
    facts([["popularity", digits(items.popularity[item])], ["users", number(items.users[item])],
      ["group", data.groups[items.group[item]].name],
      ["place by popularity", `${number(placeOf(item))} of ${number(items.count)}`]]),
    changed(item),
    el("div", { class: "panels double" },
      el("div", { class: "panel" },
        el("p", { class: "panel-title" }, "Error over the rank"), error),
      el("div", { class: "panel" },
        el("p", { class: "panel-title" }, "Self-reconstruction over the rank"), own)),
    measures(item), el("h3", {}, `Nearest items, at rank ${state.report.settings.size}`),
    el("p", { class: "lead" }, "A dot marks what no other model lists."), neighbors(item)));
  dialog.scrollTop = 0;
  curve(error, item, "item_error");
  curve(own, item, "self_reconstruction");
  title.focus();
}

function facts(pairs) {
  return el("dl", { class: "facts" },
    ...pairs.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
}

function placeOf(item) {
  const { popularity } = state.report.items;
  return 1 + popularity.reduce((above, value) => above + (value > popularity[item]), 0);
}

function curve(plot, item, measure) {
  paint(plot, { traces: shown().map((m) => rankCurve(m, m.variant.curve(measure, item))),
    x: rankAxis(5), y: { rangemode: "tozero", nticks: 5 }, shapes: [rankLine()],
    margin: { l: 40, r: 8 } });
}

/** In words: from PCA to Item-Weighted PCA. */
function changed(item) {
  const [pca, ours] = pair();
  if (!pca || !ours) return null;
  const at = (slot, measure) => slot.variant.byItem(measure, slot.at)[item];
  const moved = (what, measure) => {
    const [before, after] = [at(pca, measure), at(ours, measure)];
    return `${what} goes from ${number(before, 2)} to ${number(after, 2)}`;
  };
  const old = new Set(pca.variant.neighborsOf(item));
  const now = listedFor(ours).variant.neighborsOf(item);
  const fresh = now.filter((other) => !old.has(other)).length;
  const [waited, waits] = [pca, ours].map((slot) => slot.variant.toHalfByItem()[item]);
  return el("p", { class: "changed" },
    `From ${pca.label} to ${ours.label}, at rank ${state.rank}: ${moved("the error", "item_error")} and `
    + `${moved("self-reconstruction", "self_reconstruction")}; half is reconstructed after ${number(waits)} components `
    + `instead of ${number(waited)}. Of ${now.length} neighbors, ${fresh} are new.`);
}

function measures(item) {
  const rows = shown().map((slot) => {
    const { variant, at } = slot;
    return el("tr", { style: `--hue: var(${slot.color})` },
      el("th", { scope: "row" }, el("span", { class: "swatch" }), slot.label),
      el("td", {}, number(variant.byItem("item_error", at)[item], 3)),
      el("td", {}, number(variant.byItem("self_reconstruction", at)[item], 3)),
      el("td", {}, number(variant.toHalfByItem()[item])),
      el("td", {}, number(variant.aucByItem()[item], 3)));
  });
  const head = ["", "error", "self-reconstruction", "to half error", `AUC, rank ${state.report.settings.size}`];
  return el("div", { class: "scroll" }, el("table", { class: "plain" },
    el("thead", {}, el("tr", {}, ...head.map((text) => el("th", { scope: "col" }, text)))),
    el("tbody", {}, ...rows)));
}

/** The variant whose neighbors the file contains: at the slider's γ, or at the audited one. */
function listedFor(slot) {
  if (slot.variant.neighbors > 0 || slot.variant.kind !== "item-weighted") return slot;
  const audited = state.report.variants.find((v) => v.kind === "item-weighted" && v.neighbors > 0);
  return audited ? model(audited) : slot;
}

function neighbors(item) {
  const lists = shown().map(listedFor);
  const known = new Map();
  for (const slot of lists) {
    for (const other of slot.variant.neighborsOf(item)) {
      known.set(other, (known.get(other) || 0) + 1);
    }
  }
  const only = (other) => known.get(other) === 1 && lists.length > 1;
  return el("div", { class: "columns" }, ...lists.map((slot) => {
    const near = slot.variant.neighborsOf(item);
    return modelColumn(slot, near.length ? el("ol", {}, ...near.map((other) =>
      el("li", { class: only(other) ? "only" : null }, itemLink(other, 80),
        only(other) ? el("span", { class: "visually-hidden" }, ", only here") : null)))
      : el("p", {}, "None."));
  }));
}
