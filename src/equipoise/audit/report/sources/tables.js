// Tables whose columns sort: of the items, and of the groups.

import { el } from "./text.js";

/**
 * A column is `{key, title, note, words, minor, hue, value(row), text(row)}`; `words` sort from A.
 * `view` is `{sort, way}`; without `sort` the rows keep their order. Returns the head and the rows.
 */
export function sortable(columns, rows, view, show) {
  const column = columns.find(({ key }) => key === view.sort);
  const head = el("thead", {}, el("tr", {}, ...columns.map((each) => header(each, view, show))));
  return { head, rows: column ? sorted(rows, column, view.way) : rows };
}

function header(column, view, show) {
  const active = column.key === view.sort;
  const arrow = active ? (view.way > 0 ? "\u00a0↑" : "\u00a0↓") : "";
  const sort = (event) => {
    const { id } = event.currentTarget.closest("table");
    show({ sort: column.key, way: active ? -view.way : column.words ? 1 : -1, page: 0 });
    document.querySelector(`#${id} [data-sort="${CSS.escape(column.key)}"]`).focus();
  };
  return el("th", { scope: "col", class: kindOf(column), title: column.note,
    "aria-sort": active ? (view.way > 0 ? "ascending" : "descending") : null,
    style: column.hue ? `--hue: var(${column.hue})` : null },
  el("button", { type: "button", "data-sort": column.key, onclick: sort }, column.title, arrow));
}

/** Classes of the cells of a column. */
export function kindOf({ words, minor, hue }) {
  return [words && "words", minor && "minor", hue && "hued"].filter(Boolean).join(" ") || null;
}

/** Unknown values are last in both orders. */
function sorted(rows, { value }, way) {
  const known = (row) => !Number.isNaN(value(row) ?? NaN) || typeof value(row) === "string";
  const compare = (a, b) => (typeof a === "string" ? a.localeCompare(b, "en") : a - b);
  const place = new Map(rows.map((row, at) => [row, at]));
  return rows.filter(known)
    .sort((a, b) => way * compare(value(a), value(b)) || place.get(a) - place.get(b))
    .concat(rows.filter((row) => !known(row)));
}
