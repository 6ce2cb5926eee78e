// Figures: a title, one or more plots, a summary sentence, and the same numbers as a table.

import { el, table } from "./text.js";
import { onChange, state } from "./state.js";

const figures = [];
let pending = null;

/** A color of style.css in the current theme. */
export function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** A color with an opacity, for fills and faint lines. */
export function faint(name, opacity) {
  const hex = color(name).replace("#", "");
  const parts = [0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16));
  return `rgba(${parts.join(", ")}, ${opacity})`;
}

/**
 * Make a figure.
 *
 * `build()` returns `{panels: [{title, hint, traces, x, y, …}], gist, head, rows}` for the present
 * state; `brush(range)` is called when a box is drawn, `pick(item)` when a dot is pressed; `size`
 * is a class of style.css.
 */
export function figure(id, { title, size = "medium", build, brush = null, pick = null,
  watches = null }) {
  const node = document.getElementById(id);
  const first = build();
  const gist = el("p", { class: "gist", id: `${id}-gist` });
  const rows = el("div", { class: "scroll" });
  const details = el("details", { ontoggle: () => details.open && fill() },
    el("summary", {}, "Show as a table"), rows);
  const panels = first.panels.map((panel, at) => {
    const plot = el("div", { class: "plot", id: `${id}-${at}` });
    const caption = panel.title
      ? el("p", { class: "panel-title" }, panel.title, el("span", {}, panel.hint || "")) : null;
    return { plot, node: el("div", { class: "panel" }, ...[caption, plot].filter(Boolean)) };
  });
  const grid = el("div", { class: `panels ${size}`, role: "group", "aria-label": title,
    "aria-describedby": gist.id, "data-count": panels.length },
  ...panels.map((panel) => panel.node));
  node.append(el("figcaption", {}, title), gist, grid, details);
  let built = first;
  function fill() {
    rows.replaceChildren(table(built.head, built.rows));
  }
  const entry = { node, watches, dirty: true, draw() {
    built = build();
    built.panels.forEach((panel, at) => paint(panels[at].plot, panel, brush, pick));
    gist.textContent = built.gist;
    if (details.open) fill();
    entry.dirty = false;
  } };
  figures.push(entry);
}

/** Update the traces of one plot; Plotly redraws only what changed. */
export function paint(plot, panel, brush = null, pick = null) {
  const fresh = !plot.classList.contains("js-plotly-plot");
  if (panel.height) plot.style.height = `${panel.height}rem`;
  const config = { displayModeBar: false, doubleClick: false, showTips: false, scrollZoom: false };
  window.Plotly.react(plot, panel.traces, layoutOf(plot, panel, brush), config);
  const picture = plot.querySelector("svg.main-svg");
  if (picture) picture.setAttribute("aria-hidden", "true"); // the sentence and the table contain the numbers
  if (fresh && brush) {
    plot.on("plotly_selected", (event) => event && event.range && brush(event.range));
  }
  if (fresh && pick) {
    plot.on("plotly_click", ({ points }) => pick(points[0].customdata));
  }
}

function layoutOf(plot, panel, brush) {
  const soft = color("--soft");
  return {
    width: plot.clientWidth || 320,
    height: plot.clientHeight || 240,
    margin: { l: 46, r: 14, t: 10, b: 40, ...panel.margin },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: soft },
    showlegend: false,
    hovermode: panel.hover || "closest",
    hoverdistance: 24,
    hoverlabel: { bgcolor: color("--raised"), bordercolor: color("--rule"), align: "left",
      font: { color: color("--ink"), size: 12 } },
    dragmode: brush && window.matchMedia("(pointer: fine)").matches ? "select" : false,
    selections: [],
    newselection: { line: { color: color("--ink"), width: 1, dash: "dot" } },
    xaxis: axisOf(panel.x),
    yaxis: axisOf(panel.y),
    shapes: panel.shapes || [],
    annotations: (panel.annotations || []).map((note) => ({
      showarrow: false, font: { size: 11, color: soft }, bgcolor: faint("--paper", 0.7),
      ...note })),
  };
}

function axisOf({ title = "", ...more } = {}) {
  return {
    title: { text: title, standoff: 8, font: { size: 12 } },
    gridcolor: color("--grid"),
    linecolor: color("--rule"),
    zeroline: false,
    fixedrange: true,
    automargin: false,
    ticks: "",
    ticklabeloverflow: "allow",
    ...more,
  };
}

/** Draw what changed: visible figures first, the others when the browser is idle. */
export function drawSoon() {
  document.body.dataset.drawing = "true";
  if (pending === null) pending = requestAnimationFrame(step);
}

function step() {
  const waiting = figures.filter((entry) => entry.dirty);
  const next = waiting.find((entry) => inSight(entry.node)) || waiting[0];
  if (next) next.draw();
  pending = waiting.length > 1 ? requestAnimationFrame(step) : null;
  if (pending === null) document.body.dataset.drawing = "false";
}

function inSight(node) {
  const box = node.getBoundingClientRect();
  return box.bottom > 0 && box.top < window.innerHeight;
}

/** Draw everything now: before printing, and after the window or the theme changed. */
export function redraw(now = false) {
  for (const entry of figures) entry.dirty = true;
  if (now) for (const entry of figures) entry.draw();
  else drawSoon();
}

/** A brush only concerns the plots that show it; everything else concerns all. */
export function followState() {
  onChange((fields) => {
    const only = fields.every((field) => field === "brush");
    for (const entry of figures) if (!only || entry.watches === "brush") entry.dirty = true;
    drawSoon();
  });
  let width = window.innerWidth;
  window.addEventListener("resize", () => {
    if (window.innerWidth !== width) redraw(); // phones change the height while scrolling
    width = window.innerWidth;
  });
}

/** The axis of ranks: logarithmic, with a few of the ranks named. */
export function rankAxis(most = 6) {
  const { ranks } = state;
  const every = Math.max(1, Math.ceil(ranks.length / most));
  const ticks = ranks.filter((_, at) => (ranks.length - 1 - at) % every === 0);
  const [low, high] = [Math.log10(ranks[0]), Math.log10(ranks[ranks.length - 1])];
  const margin = Math.max((high - low) * 0.06, 0.05);
  return { title: "rank", type: "log", tickvals: ticks, ticktext: ticks.map(String),
    range: [low - margin, high + margin], showgrid: false };
}
