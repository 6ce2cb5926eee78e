// The fair comparison: every model at its best preparation and setting.

import { color, faint, figure } from "./charts.js";
import { state } from "./state.js";
import { byId, clipped, forPlot, number, signed } from "./text.js";

export function drawContest() {
  const { contest } = state.report;
  const known = contest.some((entry) => entry.test);
  byId("chart-contest").hidden = !known;
  if (known) {
    const { k } = state.report.settings;
    figure("chart-contest", { title: `NDCG@${k} on held-out items, each model at its best, with 95 % intervals`,
      size: "groups", build: contestFigure });
  }
}

function contestFigure() {
  const { contest, settings } = state.report;
  const drawn = contest.filter((entry) => entry.test).sort((a, b) => b.test.mean - a.test.mean);
  const hue = ({ subject, advised }) => (advised ? "--model-2" : subject ? "--model-0" : "--model-6");
  const text = (entry) => `<b>${forPlot(entry.title)}</b>: ${number(entry.test.mean, 3)} `
    + `(${number(entry.test.low, 3)} to ${number(entry.test.high, 3)})<br>${forPlot(entry.setting, 90)}`;
  const traces = drawn.map((entry, at) => ({ meta: entry.title, mode: "markers", x: [entry.test.mean],
    y: [at],
    error_x: { type: "data", symmetric: false, array: [entry.test.high - entry.test.mean],
      arrayminus: [entry.test.mean - entry.test.low], width: 0, thickness: 2, color: color(hue(entry)) },
    marker: { color: color(hue(entry)), size: 11,
      symbol: entry.advised ? "square" : entry.subject ? "circle" : "diamond" },
    text: [text(entry)], hovertemplate: "%{text}<extra></extra>" }));
  const narrow = window.innerWidth < 640;
  const words = drawn.map((entry) => forPlot(entry.title, narrow ? 20 : 30)
    + (entry.role && !narrow ? ` (${entry.role})` : "")); // the sentence above has it, too
  const longest = Math.max(6, ...words.map((word) => word.replace(/&\w+;|<[^>]*>/g, "x").length));
  const own = drawn.find((entry) => entry.subject);
  return {
    panels: [{ traces, height: 3.2 + 1.9 * drawn.length,
      x: { title: `NDCG@${settings.k}`, rangemode: "tozero" },
      y: { tickvals: drawn.map((_, at) => at), ticktext: words, showgrid: false,
        range: [drawn.length - 0.4, -0.6] },
      shapes: own ? [{ type: "rect", yref: "paper", y0: 0, y1: 1, x0: own.test.low, x1: own.test.high,
        line: { width: 0 }, fillcolor: faint("--model-0", 0.08), layer: "below" }] : [],
      margin: { l: Math.min(24 + 6.6 * longest, narrow ? 150 : 300) } }],
    gist: contestGist(drawn, own),
    head: ["model", `NDCG@${settings.k}`, "minus the audited model", "values", "setting"],
    rows: contest.map((entry) => [clipped(entry.title, 60), interval3(entry.test),
      entry.gain ? `${signed(entry.gain.mean, 3)} (${signed(entry.gain.low, 3)} to ${signed(entry.gain.high, 3)})` : "–",
      entry.preparation, clipped(entry.setting, 120)]),
  };
}

function interval3(found) {
  return found ? `${number(found.mean, 3)} (${number(found.low, 3)} to ${number(found.high, 3)})` : "saw the held-out items";
}

function contestGist(drawn, own) {
  const best = drawn[0];
  const first = `Best: ${clipped(best.title, 40)}, ${interval3(best.test)}.`;
  return own && own !== best ? `${first} Audited: ${clipped(own.title, 40)}, ${interval3(own.test)}.` : first;
}
