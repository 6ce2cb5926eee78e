// What each group of items or users gets from each model: one chart, one table, and its items.

import { color, drawSoon, figure, redraw } from "./charts.js";
import { showGroup } from "./items.js";
import { inOrder, model, onChange, state } from "./state.js";
import { kindOf, sortable } from "./tables.js";
import { byId, capital, clipped, digits, el, forPlot, named, number, percent } from "./text.js";

const MOST_GROUPS = 16; // groups in the chart; the table has all
const groupView = { section: 0, measure: null, model: null, sort: "", way: -1 };

export function drawGroups() {
  const { groups } = state.report;
  document.getElementById("groups").hidden = groups.length === 0;
  if (groups.length === 0) return;
  const own = (section) => !["popularity", "activity"].includes(section.rule);
  groupView.section = Math.max(groups.findIndex(own), 0);
  fillSelect("grouping", groups.map((section, at) => [at, `${section.of} by ${section.rule}`]));
  byId("grouping").value = groupView.section;
  onSelect("grouping", (value) => ({ section: Number(value), sort: "", way: -1 }));
  onSelect("group-measure", (value) => ({ measure: value }));
  onSelect("group-model", (value) => ({ model: value }));
  showGroups({});
  figure("chart-groups", { title: "By group, with 95 % intervals", size: "groups",
    build: groupsFigure });
  onChange((fields) => fields.includes("hidden") && showGroups({}));
}

function fillSelect(id, pairs) {
  byId(id).replaceChildren(...pairs.map(([value, text]) => el("option", { value }, text)));
}

function onSelect(id, fields) {
  byId(id).addEventListener("change", () => {
    showGroups(fields(byId(id).value));
    redraw();
  });
}

function section() {
  return state.report.groups[groupView.section];
}

/** Models that have numbers and are shown. */
function groupModels() {
  const { numbers } = section();
  return inOrder(state.report.variants.filter((variant) => numbers[variant.key])).map(model)
    .filter(({ slot }) => !state.hidden.has(slot));
}

/** [mean, low, high] of a group; null where it is not known. */
function intervalOf(key, measure, group) {
  const found = ((section().numbers[key] || {})[measure] || {})[group];
  return Array.isArray(found) && found[0] !== null ? found : null;
}

function showGroups(fields) {
  Object.assign(groupView, fields);
  const { measures, groups, of, note } = section();
  const keys = Object.keys(measures);
  if (!keys.includes(groupView.measure)) {
    groupView.measure = ["exposure_relative", "ndcg"].find((key) => keys.includes(key)) || keys[0];
  }
  const known = groupModels();
  if (!known.some((slot) => slot.variant.key === groupView.model)) {
    groupView.model = known.length ? known[0].variant.key : null;
  }
  fillSelect("group-measure", keys.map((key) => [key, measures[key].title]));
  fillSelect("group-model", known.map((slot) => [slot.variant.key, slot.label]));
  byId("group-measure").value = groupView.measure;
  byId("group-model").value = groupView.model;
  const all = groupColumns(measures, of);
  const { head, rows } = sortable(all, groups, groupView, showGroups);
  byId("group-table").replaceChildren(
    el("caption", { class: "visually-hidden" }, `Measures of each group of ${of}`), head,
    el("tbody", {}, ...rows.map((group) => groupRow(group, all, of))),
    el("tfoot", {}, groupRow(everything(of), all, "")));
  byId("group-note").textContent = [wholes(known), note].filter(Boolean).join(" ");
  drawSoon();
}

/** All items or users, as a group. */
function everything(of) {
  const { n_items: items, n_users: users } = state.report.data;
  return { name: "all", size: of === "items" ? items : users, interactions: 1, reported: true };
}

/** Measures that have one number for all groups together, in a sentence each. */
function wholes(slots) {
  return Object.entries(section().whole).map(([key, { title, meaning }]) => {
    const values = slots.map((slot) => [slot.label, intervalOf(slot.variant.key, key, "all")])
      .filter(([, found]) => found).map(([label, found]) => `${label} ${ranged(found)}`);
    return values.length ? `${capital(title)} (${meaning}): ${values.join(", ")}.` : "";
  }).join(" ");
}

function groupColumns(measures, of) {
  const cell = (key) => (group) => intervalOf(groupView.model, key, group.name);
  return [
    { key: "name", title: "group", words: true, value: (group) => group.name },
    { key: "size", title: of, value: (group) => group.size, text: (group) => number(group.size) },
    { key: "interactions", title: "interactions", note: "share of all interactions", minor: true,
      value: (group) => group.interactions, text: (group) => percent(group.interactions, 1) },
    ...Object.entries(measures).map(([key, { title, meaning }]) => ({ key, title, note: meaning,
      value: (group) => (cell(key)(group) || [NaN])[0], text: (group) => withInterval(cell(key)(group)) })),
  ];
}

/** A number above its interval. */
function withInterval(found) {
  if (!found) return "–";
  const [mean, low, high] = found;
  const range = low === null ? "" : `${digits(low)} to ${digits(high)}`;
  return el("span", {}, digits(mean), el("span", { class: "interval" }, range));
}

function groupRow(group, all, of) {
  const name = of === "items"
    ? el("button", { type: "button", class: "link", "data-group": group.name,
      onclick: () => showGroup(groupView.section, group.name) }, named(group.name, 60))
    : named(group.name, 60);
  const small = group.reported ? null : el("span", { class: "tag" }, "too few members");
  return el("tr", {}, el("th", { scope: "row" }, name, small),
    ...all.slice(1).map((column) => el("td", { class: kindOf(column) }, column.text(group))));
}

function groupsFigure() {
  const { measures, groups, of, rule } = section();
  const { title, meaning, better } = measures[groupView.measure];
  const drawn = groups.filter((group) => group.reported).slice(0, MOST_GROUPS);
  const slots = groupModels();
  const y = (at, place) => at + (slots.length > 1 ? 0.5 * (place / (slots.length - 1) - 0.5) : 0);
  const traces = slots.map((slot, place) => {
    const points = drawn.map((group, at) =>
      [at, intervalOf(slot.variant.key, groupView.measure, group.name)]).filter(([, found]) => found);
    const side = (bound) => points.map(([, found]) =>
      (found[bound] === null ? 0 : Math.abs(found[bound] - found[0])));
    return { meta: slot.variant.key, mode: "markers", x: points.map(([, found]) => found[0]),
      y: points.map(([at]) => y(at, place)),
      error_x: { type: "data", symmetric: false, array: side(2), arrayminus: side(1), width: 0,
        thickness: 1.5, color: color(slot.color) },
      marker: { color: color(slot.color), symbol: slot.symbol, size: 9 },
      text: points.map(([at, found]) => `${forPlot(slot.label)}<br>${forPlot(drawn[at].name)}: `
        + ranged(found)),
      hovertemplate: "%{text}<extra></extra>" };
  });
  const words = drawn.map((group) => forPlot(group.name, window.innerWidth < 640 ? 12 : 26));
  const longest = Math.max(4, ...words.map((word) => word.length));
  return {
    panels: [{ traces, height: 4 + Math.max(drawn.length, 1) * (0.8 + 0.45 * slots.length),
      x: { title, zeroline: true, zerolinecolor: color("--grid"), rangemode: "tozero" },
      y: { tickvals: drawn.map((_, at) => at), ticktext: words, showgrid: false,
        range: [drawn.length - 0.4, -0.6] },
      shapes: better === "1" ? [{ type: "line", yref: "paper", x0: 1, x1: 1, y0: 0, y1: 1,
        line: { color: color("--soft"), width: 1, dash: "dot" } }] : [],
      margin: { l: Math.min(30 + 6.4 * longest, 200) } }],
    gist: groupGist(drawn, slots[0], title, meaning),
    head: [`${of} by ${rule}`, of, ...slots.map((slot) => slot.label)],
    rows: groups.map((group) => [clipped(group.name, 60), number(group.size),
      ...slots.map((slot) => ranged(intervalOf(slot.variant.key, groupView.measure, group.name)))]),
  };
}

function ranged(found) {
  return found ? `${digits(found[0])} (${digits(found[1])} to ${digits(found[2])})` : "–";
}

/** The group with the least and the one with the most, under the first model. */
function groupGist(drawn, slot, title, meaning) {
  const what = `${capital(title)}: ${meaning}.`;
  const known = slot ? drawn.map((group) => [clipped(group.name, 40),
    intervalOf(slot.variant.key, groupView.measure, group.name)]).filter(([, found]) => found) : [];
  if (known.length < 2) return what;
  known.sort((a, b) => a[1][0] - b[1][0]);
  const text = ([name, found]) => `${name} ${ranged(found)}`;
  return `${what} ${slot.label}: least for ${text(known[0])}, most for ${text(known[known.length - 1])}.`;
}
