// Parts of several charts: curves over ranks, clouds of items with their medians.

import { color, faint } from "./charts.js";
import { forPlot, number } from "./text.js";
import { state } from "./state.js";

const MOST_DRAWN = 1600; // dots for each model; more are slow, and not seen
const BINS = 16;

/** A model's line over its ranks, with a dot at the slider's rank. */
export function rankCurve(slot, values, decimals = 3) {
  const { variant } = slot;
  const hint = (at) => `${forPlot(slot.label)}<br>rank ${variant.sizes[at]}: `
    + `<b>${number(values[at], decimals)}</b>`;
  const single = variant.sizes.length === 1;
  const x = single ? state.ranks : variant.sizes; // a model without components: a level line
  const y = single ? state.ranks.map(() => values[0]) : values;
  const sizes = variant.sizes.map((_, at) => (at === slot.at ? 9 : 0.1));
  return {
    meta: variant.key, mode: single ? "lines" : "lines+markers", x, y, cliponaxis: false,
    line: { color: color(slot.color), dash: slot.dash, width: 2 },
    marker: { color: color(slot.color), symbol: slot.symbol, size: sizes, opacity: 1 },
    text: x.map((_, at) => hint(single ? 0 : at)), hovertemplate: "%{text}<extra></extra>",
  };
}

/** The upright line at the slider's rank. */
export function rankLine() {
  return { type: "line", xref: "x", yref: "paper", x0: state.rank, x1: state.rank, y0: 0, y1: 1,
    layer: "below", line: { color: color("--soft"), width: 1, dash: "dot" } };
}

/** Items that the clouds draw: all, or the extremes and an even sample by popularity. */
export function drawn() {
  if (state.drawn) return state.drawn;
  const { variants } = state.report;
  const order = byPopularity();
  const kept = new Set();
  if (order.length > MOST_DRAWN) {
    for (const item of order.slice(0, 150)) kept.add(item);
    for (const variant of variants.slice(0, 8)) {
      const values = variant.byItem("self_reconstruction", variant.sizes.length >> 1);
      const sorted = order.slice().sort((a, b) => values[b] - values[a]);
      for (const item of sorted.slice(0, 40)) kept.add(item);
    }
  }
  const stride = Math.max(1, order.length / (MOST_DRAWN - kept.size));
  for (let at = 0; at < order.length; at += stride) kept.add(order[Math.floor(at)]);
  state.drawn = [...kept].sort((a, b) => a - b);
  return state.drawn;
}

/** Items with any popularity, the most popular first. */
export function byPopularity() {
  const { items } = state.report;
  const all = Array.from({ length: items.count }, (_, at) => at);
  state.order = state.order || all.filter((item) => items.popularity[item] > 0)
    .sort((a, b) => items.popularity[b] - items.popularity[a] || a - b);
  return state.order;
}

/** Faint clouds of items, and above them the lines of their medians by popularity. */
export function clouds(slots, valuesOf, options) {
  return [...slots.map((slot) => cloud(slot, valuesOf(slot), options)),
    ...slots.map((slot) => medianLine(slot, valuesOf(slot), options.cap ?? Infinity))];
}

function cloud(slot, values, { cap = Infinity, decimals, within = null }) {
  const { items } = state.report;
  const points = drawn().filter((item) => !Number.isNaN(values[item]));
  const dots = {
    meta: slot.variant.key, mode: "markers",
    x: points.map((item) => items.popularity[item]),
    y: points.map((item) => Math.min(values[item], cap)),
    marker: { color: color(slot.color), symbol: slot.symbol, size: 5, opacity: 0.34 },
    text: points.map((item) => `<b>${forPlot(items.names[item])}</b><br>${forPlot(slot.label)}: `
      + `${number(values[item], decimals)}`),
    hovertemplate: "%{text}<extra></extra>",
    customdata: points,
    unselected: { marker: { opacity: 0.06 } }, selected: { marker: { opacity: 0.6 } },
  };
  if (within) dots.selectedpoints = points.flatMap((item, at) => (within[item] ? [at] : []));
  return dots;
}

function medianLine(slot, values, cap) {
  const { items } = state.report;
  const order = byPopularity().filter((item) => !Number.isNaN(values[item]));
  const [high, low] = [order[0], order[order.length - 1]].map((j) => Math.log(items.popularity[j]));
  const bins = Array.from({ length: BINS }, () => []);
  for (const item of order) {
    const share = (Math.log(items.popularity[item]) - low) / (high - low || 1);
    bins[Math.min(BINS - 1, Math.floor(share * BINS))].push(item);
  }
  const full = bins.filter((bin) => bin.length >= 3);
  const middle = (numbers) => numbers.sort((a, b) => a - b)[numbers.length >> 1];
  return {
    meta: slot.variant.key, mode: "lines", hoverinfo: "skip",
    x: full.map((bin) => middle(bin.map((item) => items.popularity[item]))),
    y: full.map((bin) => Math.min(middle(bin.map((item) => values[item])), cap)),
    line: { color: color(slot.color), dash: slot.dash, width: 2.5 },
  };
}

/** The box that was brushed, drawn again after each change. */
export function brushBox(chart) {
  const { brush } = state;
  if (!brush || brush.chart !== chart || !brush.y) return [];
  return [{ type: "rect", x0: brush.x[0], x1: brush.x[1], y0: brush.y[0], y1: brush.y[1],
    line: { color: color("--ink"), width: 1, dash: "dot" }, fillcolor: faint("--ink", 0.04) }];
}
