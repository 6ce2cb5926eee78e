// The table of items: searched, filtered by the brush, sorted and paged; a row opens the card.

import { openItem } from "./card.js";
import { withinBrush } from "./mechanisms.js";
import { change, onChange, pair, shown, slots, state } from "./state.js";
import { kindOf, sortable } from "./tables.js";
import { byId, clipped, digits, el, named, number, plural, signed } from "./text.js";

const PAGE = 20;

const MEASURES = {
  error: { title: "Item error", decimals: 3, of: (m) => m.variant.byItem("item_error", m.at) },
  self: { title: "Self-reconstruction", decimals: 3,
    of: (m) => m.variant.byItem("self_reconstruction", m.at) },
  half: { title: "Components to half error", decimals: 0, of: (m) => m.variant.toHalfByItem() },
  auc: { title: "Item AUC", decimals: 3, of: (m) => m.variant.aucByItem() },
};

/** Ready-made questions about the audited model: which measure, sorted by which column and way. */
function presets() {
  const [own, advised] = pair();
  const { slot, short } = own || slots()[0];
  return [
    ["Most popular", "self", "popularity", -1],
    [`Most memorized by ${short}`, "self", slot, -1],
    [`Least reconstructed by ${short}`, "error", slot, -1],
    ...(advised ? [[`Less memorized by ${advised.short}`, "self", "change", 1]] : []),
    [`Least predicted by other items under ${short}`, "auc", slot, 1],
  ];
}

const view = { search: "", group: "", measure: "self", sort: "popularity", way: -1, page: 0 };
let haystack = null;

export function drawItems() {
  const { data, groups } = state.report;
  const option = (section, name) => el("option", { value: `${section}/${name}` }, clipped(name, 40));
  byId("group").append(el("option", { value: "" }, "all"),
    el("optgroup", { label: "popularity" }, ...data.groups.map(({ name }) => option("", name))),
    ...groups.map((section, at) => ({ ...section, at })).filter(({ members }) => members)
      .map(({ at, rule, groups: own }) => el("optgroup", { label: clipped(rule, 40) },
        ...own.map(({ name }) => option(at, name)))));
  byId("measure").append(...Object.entries(MEASURES).map(([key, { title }]) =>
    el("option", { value: key, selected: key === view.measure }, title)));
  listen("search", "input", (value) => ({ search: value.trim().toLowerCase() }));
  listen("group", "change", (value) => ({ group: value }));
  listen("measure", "change", (value) => ({ measure: value }));
  for (const id of ["from", "to"]) byId(id).addEventListener("change", typedRange);
  byId("clear").addEventListener("click", clear);
  byId("presets").append(...presets().map(([title, measure, sort, way]) =>
    el("button", { type: "button", class: "chip", onclick: () => {
      byId("measure").value = measure;
      show({ measure, sort, way, page: 0 });
    } }, title)));
  byId("item-table").addEventListener("keydown", walk);
  onChange((fields) => {
    if (fields.includes("brush")) tellBrush();
    show(fields.includes("brush") ? { page: 0 } : {});
  });
  show({});
}

function listen(id, event, fields) {
  byId(id).addEventListener(event, () => show({ ...fields(byId(id).value), page: 0 }));
}

function typedRange() {
  const [from, to] = ["from", "to"].map((id) => byId(id).value);
  const x = [from === "" ? -Infinity : Number(from), to === "" ? Infinity : Number(to)];
  change({ brush: from === "" && to === "" ? null : { chart: null, x, y: null } });
}

/** The fields follow the brush, to be read and corrected by hand. */
function tellBrush() {
  const { brush } = state;
  if (brush && !brush.y) return;
  byId("from").value = brush ? Number(brush.x[0].toPrecision(3)) : "";
  byId("to").value = brush ? Number(brush.x[1].toPrecision(3)) : "";
}

function clear() {
  Object.assign(view, { search: "", group: "", page: 0 });
  byId("search").value = "";
  byId("group").value = "";
  change({ brush: null });
  byId("search").focus();
}

/** Positions of the items that pass every filter. */
function found() {
  const { items } = state.report;
  haystack = haystack || items.names.map((name, at) => `${name}\n${items.ids[at]}`.toLowerCase());
  const within = withinBrush();
  const inGroup = memberOf(view.group);
  const passes = (item) => (!inGroup || inGroup(item))
    && (!within || within[item]) && (!view.search || haystack[item].includes(view.search));
  return Array.from({ length: items.count }, (_, at) => at).filter(passes);
}

/** Whether an item is in the group of the filter; null for all. */
function memberOf(filter) {
  if (filter === "") return null;
  const { data, items, groups } = state.report;
  const cut = filter.indexOf("/");
  const [section, name] = [filter.slice(0, cut), filter.slice(cut + 1)];
  const names = (section === "" ? data : groups[Number(section)]).groups.map((group) => group.name);
  const place = names.indexOf(name);
  if (section === "") return (item) => items.group[item] === place;
  const { starts, of } = groups[Number(section)].members;
  return (item) => of.subarray(starts[item], starts[item + 1]).includes(place);
}

/** Show the items of one group, from the table of groups. */
export function showGroup(section, name) {
  const { groups } = state.report;
  const filter = `${groups[section].members ? section : ""}/${name}`;
  byId("group").value = filter;
  show({ group: filter, page: 0 });
  byId("items").scrollIntoView();
  byId("group").focus();
}

function columns() {
  const { items, data } = state.report;
  const measure = MEASURES[view.measure];
  const models = shown().map((m) => {
    const values = measure.of(m);
    return { key: m.slot, title: m.label, hue: m.color, value: (j) => values[j],
      text: (j) => number(values[j], measure.decimals) };
  });
  const [pca, ours] = pair().map((m) => m && measure.of(m));
  const difference = pca && ours ? [{ key: "change", title: "change",
    note: `${pair()[1].label} minus ${pair()[0].label}`, value: (j) => ours[j] - pca[j],
    text: (j) => signed(ours[j] - pca[j], measure.decimals) }] : [];
  return [
    { key: "name", title: "item", words: true, value: (j) => items.names[j] },
    { key: "popularity", title: "popularity", value: (j) => items.popularity[j],
      text: (j) => digits(items.popularity[j]) },
    { key: "users", title: "users", minor: true, value: (j) => items.users[j],
      text: (j) => number(items.users[j]) },
    { key: "group", title: "group", words: true, minor: true, value: (j) => items.group[j],
      text: (j) => data.groups[items.group[j]].name },
    ...models, ...difference,
  ];
}

function show(fields) {
  Object.assign(view, fields);
  const all = columns();
  if (!all.some(({ key }) => key === view.sort)) view.sort = "popularity"; // a hidden model
  const { head, rows: matching } = sortable(all, found(), view, show);
  const pages = Math.max(1, Math.ceil(matching.length / PAGE));
  view.page = Math.min(view.page, pages - 1);
  const rows = matching.slice(view.page * PAGE, (view.page + 1) * PAGE);
  byId("item-table").replaceChildren(
    el("caption", { class: "visually-hidden" }, `${MEASURES[view.measure].title} of each item`),
    head,
    el("tbody", {}, ...rows.map((item) => row(item, all))));
  tellFound(matching.length);
  drawPager(pages);
}

function row(item, all) {
  const { names } = state.report.items;
  const open = (event) => {
    event.stopPropagation();
    event.currentTarget.closest("tr").querySelector("button").focus();
    openItem(item);
  };
  const button = el("button", { type: "button", class: "link", "data-item": item, onclick: open },
    named(names[item], 70));
  return el("tr", { onclick: open }, el("th", { scope: "row" }, button),
    ...all.slice(1).map((column) => el("td", { class: kindOf(column) },
      column.text(item))));
}

/** Arrow keys walk over the rows. */
function walk(event) {
  const steps = { ArrowDown: 1, ArrowUp: -1 };
  const buttons = [...byId("item-table").querySelectorAll("[data-item]")];
  const at = buttons.indexOf(document.activeElement);
  const next = buttons[at + steps[event.key]];
  if (at < 0 || !next) return;
  event.preventDefault();
  next.focus();
}

function tellFound(count) {
  const { items } = state.report;
  const filtered = state.brush || view.search || view.group;
  const boxed = state.brush && state.brush.y ? " in the box you drew" : "";
  byId("found").textContent = filtered
    ? `${plural(count, "item", "items")}${boxed}, of ${number(items.count)}`
    : plural(count, "item", "items");
  byId("clear").hidden = !filtered;
}

function drawPager(pages) {
  const turn = (id, by, text) => el("button", { type: "button", class: "quiet", id,
    disabled: view.page + by < 0 || view.page + by >= pages, onclick: () => {
      show({ page: view.page + by });
      const again = byId(id);
      (again.disabled ? byId("pager").querySelector("button:not([disabled])") : again)?.focus();
    } }, text);
  byId("pager").replaceChildren(turn("page-before", -1, "← Previous"),
    el("span", {}, `Page ${number(view.page + 1)} of ${number(pages)}`),
    turn("page-next", 1, "Next →"));
}
