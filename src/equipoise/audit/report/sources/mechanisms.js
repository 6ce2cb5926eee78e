// The data and the paper's two mechanisms, item by item and by popularity group.

import { itemLink, openItem } from "./card.js";
import { color, faint, figure, rankAxis } from "./charts.js";
import { brushBox, clouds, rankCurve, rankLine } from "./shapes.js";
import { change, groupNames, isWhole, listed, meanOf, meansOf, onChange, shown, state }
  from "./state.js";
import { byId, byModel, el, firstOf, forPlot, modelColumn, number, percent, plural }
  from "./text.js";

export function drawMechanisms() {
  figure("chart-shares", { title: "Interactions and components, most popular items first",
    size: "tall", build: sharesFigure });
  figure("chart-error", { title: "Item error over the rank, by popularity group",
    size: "triple", build: () => byGroup("item_error", "error") });
  figure("chart-half-error", { title: "Components until an item’s error is halved", size: "tall",
    build: halfErrorFigure, watches: "brush", pick: openItem,
    brush: (range) => brushed("half-error", range) });
  figure("chart-self", { title: "Self-reconstruction of every item", size: "tall",
    build: selfFigure, watches: "brush", pick: openItem,
    brush: (range) => brushed("self", range) });
  figure("chart-self-groups", { title: "Self-reconstruction over the rank, by popularity group",
    size: "triple", build: () => byGroup("self_reconstruction", "self-reconstruction") });
  onChange((fields) => fields.every((f) => f === "brush" || f === "rank") || drawOwned());
  drawOwned();
}

function brushed(chart, { x, y }) {
  const rising = (range) => range.slice().sort((a, b) => a - b);
  change({ brush: { chart, x: rising(x), y: rising(y) } });
}

/** The values of the items on a brushable chart. */
export function brushable(chart, slot) {
  const { variant, at } = slot;
  return chart === "half-error" ? variant.toHalfByItem()
    : variant.byItem("self_reconstruction", at);
}

/** 1 for every item inside the brush, under any model that is shown; null without a brush. */
export function withinBrush() {
  const { brush, report } = state;
  if (!brush) return null;
  const { popularity, count } = report.items;
  const inside = new Uint8Array(count);
  const cap = halfErrorCap();
  const values = brush.y ? shown().map((slot) => brushable(brush.chart, slot)) : null;
  for (let item = 0; item < count; item += 1) {
    const wanted = popularity[item] >= brush.x[0] && popularity[item] <= brush.x[1];
    const level = (list) => (brush.chart === "half-error" ? Math.min(list[item], cap) : list[item]);
    inside[item] = wanted && (!values
      || values.some((list) => level(list) >= brush.y[0] && level(list) <= brush.y[1]));
  }
  return inside;
}

function sharesFigure() {
  const { popularity_curve: curve, head_share: head } = state.report.data;
  const data = { mode: "lines", x: curve.map((p) => p[0]), y: curve.map((p) => p[1]),
    line: { color: color("--soft"), width: 2 }, fill: "tozeroy", fillcolor: faint("--soft", 0.09),
    hovertemplate: "%{x:.0%} of the items have %{y:.0%} of the interactions<extra></extra>" };
  const models = shown().filter((slot) => sharesAt(slot).length);
  const traces = models.map((slot) => ({ meta: slot.variant.key, mode: "lines",
    x: sharesAt(slot).map((p) => p[0]), y: sharesAt(slot).map((p) => p[1]),
    line: { color: color(slot.color), dash: slot.dash, width: 2 },
    hovertemplate: `${forPlot(slot.label)}: %{x:.0%} of the items have %{y:.0%} of the components`
      + "<extra></extra>" }));
  const tenth = (slot) => interpolate(sharesAt(slot), 0.1);
  const cuts = [0.01, 0.05, 0.1, 0.25, 0.5];
  return {
    panels: [{ traces: [data, ...traces],
      x: { title: "share of the items, most popular first", tickformat: ".0%", range: [0, 1.001],
        dtick: 0.2, showgrid: false },
      y: { title: "their share", tickformat: ".0%", dtick: 0.2, range: [0, 1.01] },
      margin: { l: 56, r: 24 },
      annotations: [{ x: 0.98, y: 0.04, xref: "paper", yref: "paper", xanchor: "right",
        text: "gray: the data" }] }],
    gist: `The most popular tenth of the items has ${percent(head)} of the interactions. Its share of `
      + `the components: ${listed(tenth, (value) => percent(value))}.`,
    head: ["most popular", "interactions", ...models.map((m) => m.label)],
    rows: cuts.map((cut) => [percent(cut), percent(interpolate(curve, cut), 1),
      ...models.map((m) => percent(interpolate(sharesAt(m), cut), 1))]),
  };
}

function sharesAt(slot) {
  return slot.variant.shares[slot.at];
}

function interpolate(curve, x) {
  const after = curve.findIndex((point) => point[0] >= x);
  if (after <= 0) return curve.length ? curve[Math.max(after, 0)][1] : NaN;
  const [[x0, y0], [x1, y1]] = [curve[after - 1], curve[after]];
  return y0 + ((y1 - y0) * (x - x0)) / (x1 - x0 || 1);
}

/** Small multiples, one for each popularity group, on one scale. */
function byGroup(measure, word) {
  const { groups } = state.report.data;
  const models = shown();
  const means = (slot, group) => meansOf(slot, measure, group);
  const at = (slot, group, rank) => means(slot, group)[slot.variant.sizes.indexOf(rank)] ?? NaN;
  const top = Math.max(...models.flatMap((m) => groups.flatMap((g) => means(m, g.name))), 0.05);
  const panels = groups.map((group, place) => ({
    title: group.name,
    hint: `${plural(group.n_items, "item", "items")}, ${percent(group.share)} of interactions`,
    traces: models.filter((m) => means(m, group.name).length)
      .map((slot) => rankCurve(slot, means(slot, group.name))),
    x: rankAxis(5), y: { range: [0, Math.min(top * 1.06, top > 1 ? Infinity : 1.03)],
      title: place === 0 ? `mean ${word}` : "" },
    shapes: [rankLine()],
  }));
  const subject = groups[measure === "item_error" ? groups.length - 1 : 0].name;
  return {
    panels,
    gist: `Mean ${word} of a ${subject} item at rank ${state.rank}: `
      + `${listed((m) => meanOf(m, measure, subject), (value) => number(value, 2))}.`,
    head: ["group", "rank", ...models.map((m) => m.label)],
    rows: groups.flatMap((group) => state.ranks.map((rank) => [group.name, String(rank),
      ...models.map((m) => number(at(m, group.name, rank), 3))])),
  };
}

/** Height of items that never reach half: above every finite number. */
function halfErrorCap() {
  if (!state.cap) {
    const finite = state.report.variants.map((variant) => variant.toHalfByItem()
      .reduce((most, value) => (value < Infinity && value > most ? value : most), 1));
    state.cap = Math.max(...finite) * 1.7;
  }
  return state.cap;
}

function halfErrorFigure() {
  const cap = halfErrorCap();
  const within = state.brush ? withinBrush() : null;
  const models = shown();
  const never = models.some((slot) => slot.variant.toHalfByItem().includes(Infinity));
  const tens = [1, 3, 10, 30, 100, 300, 1000, 3000, 10000].filter((tick) => tick < cap / 1.5);
  const groups = groupNames();
  const niche = groups[groups.length - 1];
  return {
    panels: [{
      traces: clouds(models, (slot) => slot.variant.toHalfByItem(), { cap, decimals: 0, within }),
      x: popularityAxis(),
      y: { title: "components", type: "log", range: [-0.12, Math.log10(cap) + 0.08],
        tickvals: never ? [...tens, cap] : tens, ticktext: [...tens.map(String), "never"] },
      shapes: [{ type: "line", xref: "paper", x0: 0, x1: 1, y0: state.rank, y1: state.rank,
        line: { color: color("--ink"), width: 1, dash: "dash" } }, ...brushBox("half-error")],
      annotations: [{ xref: "paper", x: 0.01, y: Math.log10(state.rank), xanchor: "left",
        yanchor: "top", text: `the model keeps ${state.rank}` }],
      margin: { l: 56 },
    }],
    gist: `Components until half of a ${niche} item is reconstructed, on average: `
      + `${listed((m) => m.variant.components_to_half[niche], (value, m) => bound(m, niche) + number(value))}.`,
    ...byModel("group", models, [...groups, "all"],
      (m, g) => bound(m, g) + number(m.variant.components_to_half[g] ?? NaN)),
  };
}

/** A mean is a lower bound where an item of the group never gets there. */
function bound({ variant }, group) {
  const { items } = state.report;
  const place = groupNames().indexOf(group); // −1: all
  const never = variant.toHalfByItem().some((value, item) => value === Infinity
    && (place < 0 || items.group[item] === place));
  return never ? "≥\u00a0" : "";
}

function selfFigure() {
  const models = shown();
  const within = state.brush ? withinBrush() : null;
  const groups = [...groupNames(), "all"];
  return {
    panels: [{
      traces: clouds(models, (slot) => slot.variant.byItem("self_reconstruction", slot.at),
        { decimals: 3, within }),
      x: popularityAxis(), y: { title: "self-reconstruction", range: [-0.03, null] },
      shapes: brushBox("self"), margin: { l: 56 },
    }],
    gist: `Specialization, the mean of the largest tenth, at rank ${state.rank}: `
      + `${listed((m) => meanOf(m, "specialization"), (value) => number(value, 2))}.`,
    ...byModel("group", models, groups, (m, g) => number(meanOf(m, "self_reconstruction", g), 3)),
  };
}

function popularityAxis() {
  const { popularity } = state.report.items;
  const low = popularity.reduce((least, p) => (p > 0 && p < least ? p : least), Infinity);
  const high = popularity.reduce((most, p) => Math.max(most, p), 0);
  const steps = high / low < 300 ? [1, 2, 5] : [1];
  const ticks = Array.from({ length: 30 }, (_, at) => at - 15)
    .flatMap((power) => steps.map((step) => Number(`${step}e${power}`)))
    .filter((tick) => tick > low / 1.2 && tick < high * 1.2);
  return { title: "popularity (log scale)", type: "log", showgrid: false, tickvals: ticks,
    ticktext: ticks.map((tick) => String(tick)) };
}

/** Components that one item owns, a list for each model. */
function drawOwned() {
  const list = (slot) => {
    const { owned, size } = slot.variant;
    const rows = owned.map(({ component, item, weight }) => el("li", {}, itemLink(item),
      el("span", { class: "meter", "aria-hidden": "true" },
        el("span", { style: `width: ${Math.round(100 * Math.min(weight, 1))}%` })),
      el("span", { class: "weight" }, `${number(weight, 2)}`,
        el("span", { class: "visually-hidden" }, ` of component ${component + 1}`))));
    const count = rows.length ? plural(rows.length, "component", "components") : "None";
    return modelColumn(slot, el("p", {}, isWhole(slot.variant) ? "This model has no components."
      : `${count} of ${size} owned`), ...firstOf(rows, 8, (nodes) => el("ol", {}, ...nodes)));
  };
  byId("owned").replaceChildren(
    el("h3", {}, "Components owned by one item"),
    el("div", { class: "columns" }, ...shown().map(list)));
}
