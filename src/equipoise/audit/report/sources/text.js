// Words and numbers. Whatever comes from the data is text: it never becomes markup.

/** A DOM element; strings among the children become text nodes. */
export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) {
      node.setAttribute(name, value);
    }
  }
  node.append(...children.filter((child) => child !== null));
  return node;
}

export function capital(text) {
  return text[0].toUpperCase() + text.slice(1);
}

export function byId(id) {
  return document.getElementById(id);
}

// Marks that turn the direction of the text around them, and control characters.
const DISTURBING = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/** On one line, at most `most` characters; never cuts a character in half. */
export function clipped(text, most) {
  const characters = Array.from(text.slice(0, 4 * most));
  const cut = characters.length > most || text.length > 4 * most;
  return cut ? characters.slice(0, most - 1).join("") + "…" : text;
}

/** For Plotly, which reads a little HTML in its labels: nothing of the text may be read so. */
export function forPlot(text, most = 48) {
  const calm = clipped(text.replace(DISTURBING, "\ufffd"), most);
  return calm.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

/** A name in the page; `bdi` keeps right-to-left marks from leaking into the line. */
export function named(text, most = 120) {
  const node = el("bdi", { class: "name" }, clipped(text, most));
  if (node.textContent !== text) node.title = clipped(text, 600);
  return node;
}

const forms = new Map();

/** A number with a fixed number of decimals, a dash for what is not known. */
export function number(value, decimals = 0) {
  if (value === null || Number.isNaN(value)) return "–";
  if (value === Infinity) return "never";
  if (!forms.has(decimals)) {
    forms.set(decimals, new Intl.NumberFormat("en", {
      minimumFractionDigits: decimals, maximumFractionDigits: decimals }));
  }
  return forms.get(decimals).format(value).replace("-", "−");
}

/** Three digits that count, for numbers of any size. */
export function digits(value) {
  if (value === null || !Number.isFinite(value)) return number(value);
  const size = Math.abs(value);
  if (size >= 100 || value === 0) return number(value);
  if (size < 0.001) return value.toExponential(1).replaceAll("-", "−");
  return number(value, size >= 10 ? 1 : size >= 1 ? 2 : 3);
}

export function percent(value, decimals = 0) {
  return value === null || !Number.isFinite(value) ? "–" : `${number(100 * value, decimals)}%`;
}

export function signed(value, decimals) {
  if (!Number.isFinite(value)) return "–";
  const text = number(value, decimals);
  if (!/[1-9]/.test(text)) return number(0, decimals); // neither +0.00 nor −0.00
  return value > 0 ? `+${text}` : text;
}

export function plural(count, one, many) {
  return `${number(count)} ${count === 1 ? one : many}`;
}

/** γ without needless zeros, with a real minus. */
export function gammaText(gamma) {
  return String(Number(gamma.toPrecision(4))).replace("-", "−");
}

/** A box under the name of a model, in its color: one of several next to each other. */
export function modelColumn({ label, color }, ...children) {
  return el("div", { style: `--hue: var(${color})` },
    el("h4", {}, el("span", { class: "swatch" }), label), ...children);
}

/** The first nodes of a list, the others behind a button; `make` makes a list of nodes. */
export function firstOf(nodes, most, make) {
  const rest = nodes.slice(most);
  return [nodes.length ? make(nodes.slice(0, most)) : null, rest.length
    ? el("details", {}, el("summary", {}, `${number(rest.length)} more`), make(rest)) : null];
}

/** The table of a figure: one row per name, one column per model. */
export function byModel(first, models, names, cell) {
  return { head: [first, ...models.map(({ label }) => label)],
    rows: names.map((name) => [name, ...models.map((slot) => cell(slot, name))]) };
}

/** A table from a head and rows of text. */
export function table(head, rows) {
  return el("table", { class: "plain" },
    el("thead", {}, el("tr", {}, ...head.map((text) => el("th", { scope: "col" }, text)))),
    el("tbody", {}, ...rows.map(([first, ...rest]) => el("tr", {},
      el("th", { scope: "row" }, first), ...rest.map((text) => el("td", {}, text))))));
}
