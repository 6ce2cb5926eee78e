// The price of a floor: what is left of the objective if one group of items must keep a larger share.

import { color, figure } from "./charts.js";
import { SYMBOLS, state } from "./state.js";
import { byId, clipped, digits, forPlot, percent } from "./text.js";

const LINE_OF_LABELS = 17; // pixels
const DRAWN = 5; // more curves overlap; the table lists all groups

export function drawFloors() {
  const section = state.report.groups.find(({ prices }) => prices.length);
  if (!section) return;
  byId("floors").hidden = false;
  const { prices, groups } = section;
  const some = Math.min(prices.length, DRAWN) < groups.filter(({ reported }) => reported).length;
  figure("chart-floors", { size: "groups", build: () => floorsFigure(prices),
    title: `The price of a floor${some ? ", for the groups with the smallest shares" : ""}` });
}

function floorsFigure(all) {
  const prices = all.slice(0, DRAWN); // the smallest shares come first
  const narrow = window.innerWidth < 640;
  const hue = (at) => color(`--model-${(at + 3) % 8}`); // the first colors are those of the models
  const traces = prices.map(({ group, limit, floors, kept }, at) => ({
    meta: group, mode: "lines+markers", x: floors, y: kept, cliponaxis: false,
    line: { color: hue(at), width: 2 },
    marker: { color: hue(at), size: 8, symbol: SYMBOLS[at % SYMBOLS.length] },
    text: floors.map((floor, point) => `<b>${forPlot(group)}</b><br>${point ? "floor" : "no floor, share"} `
      + `${digits(floor)}: ${percent(kept[point], 1)} of the objective<br>certified limit ${digits(limit)}`),
    hovertemplate: "%{text}<extra></extra>" }));
  const limits = prices.map(({ limit }, at) => ({ type: "line", yref: "paper", x0: limit, x1: limit,
    y0: 0, y1: 1, layer: "below", line: { color: hue(at), width: 1.5, dash: "dash" } }));
  const lowest = Math.min(...prices.map(({ share }) => share));
  const highest = Math.max(...prices.map(({ limit }) => limit));
  const annotations = prices.map(({ group, limit }, at) => ({ x: limit, y: 1, yref: "paper",
    yanchor: "bottom", yshift: 2 + LINE_OF_LABELS * (prices.length - 1 - at),
    xanchor: limit > (lowest + highest) / 2 ? "right" : "left",
    text: `${forPlot(group, narrow ? 18 : 40)}: limit ${digits(limit)}`,
    font: { size: 12, color: hue(at) } }));
  const pad = 0.03 * (highest - lowest || 1);
  return {
    panels: [{ traces, annotations, shapes: limits, height: 16 + prices.length,
      x: { title: "floor for the retained share of the group", range: [lowest - pad, highest + pad] },
      y: { title: "objective kept", tickformat: ".0%", rangemode: "tozero" },
      margin: { l: 58, t: 12 + LINE_OF_LABELS * prices.length } }],
    gist: floorsGist(prices[0]),
    head: ["group", "floor", "objective kept", "certified limit"],
    rows: all.flatMap(({ group, limit, floors, kept }) => floors.map((floor, point) =>
      [clipped(group, 60), `${digits(floor)}${point ? "" : " (no floor)"}`, percent(kept[point], 1),
        digits(limit)])),
  };
}

/** The group with the smallest share: where it is, a middle floor and its price, the limit. */
function floorsGist({ group, share, limit, floors, kept }) {
  const middle = floors.length >> 1;
  return `${clipped(group, 40)}: retained share ${digits(share)} without a floor. A floor of `
    + `${digits(floors[middle])} costs ${percent(1 - kept[middle], 1)} of the objective. No projection `
    + `of this rank exceeds ${digits(limit)}.`;
}
