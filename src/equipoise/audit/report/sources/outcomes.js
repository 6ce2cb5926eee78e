// Results: collaboration between items, the lists on the hold-out, the frontier.

import { color, faint, figure, rankAxis } from "./charts.js";
import { rankCurve, rankLine } from "./shapes.js";
import { exponentOf, groupNames, listed, meanOf, meansOf, model, pair, shown, state }
  from "./state.js";
import { clipped, digits, forPlot, gammaText, number, percent } from "./text.js";

// Metrics of the lists, in this order.
const METRICS = [
  ["recall", "Recall", "higher is better"], ["ndcg", "NDCG", "higher is better"],
  ["precision", "Precision", "higher is better"], ["mrr", "MRR", "higher is better"],
  ["aplt", "APLT", "share of long-tail items"], ["coverage", "Coverage", "share of the catalog"],
  ["arp", "ARP", "mean popularity"], ["gini", "Gini", "lower is more equal"],
];

export function drawOutcomes() {
  figure("chart-collaboration", { title: "In-sample item AUC and precision, by popularity group",
    size: "double", build: collaborationFigure });
  figure("chart-holdout", { title: "Lists on the hold-out, over the rank", size: "quad",
    build: holdoutFigure });
  figure("chart-frontier", { title: "NDCG against APLT, over γ and rank", size: "tall",
    build: frontierFigure });
}

function collaborationFigure() {
  const groups = [...groupNames(), "all"];
  const models = shown();
  const panel = (measure, title, hint) => ({
    title, hint,
    traces: [...rungs(groups, (g) => models.map((m) => meanOf(m, measure, g))),
      ...models.map((slot) => ({
        meta: slot.variant.key, mode: "markers", y: groups,
        x: groups.map((g) => meanOf(slot, measure, g)),
        marker: { color: color(slot.color), symbol: slot.symbol, size: 12,
          line: { color: color("--paper"), width: 1.5 } },
        hovertemplate: `${forPlot(slot.label)}, %{y}: <b>%{x:.3f}</b><extra></extra>` }))],
    x: { title: title.toLowerCase() === "item auc" ? "AUC" : "precision", nticks: 6 },
    y: { type: "category", autorange: "reversed", showgrid: false, categoryarray: groups,
      categoryorder: "array" },
    margin: { l: 64, t: 6 },
  });
  const niche = groups[groups.length - 2];
  return {
    panels: [panel("item_auc", "Item AUC", "½ guessing, 1 perfect"),
      panel("item_precision", "Item precision", "of the users ranked first")],
    gist: `AUC of a ${niche} item at rank ${state.rank}: `
      + `${listed((m) => meanOf(m, "item_auc", niche), (auc) => number(auc, 3))}.`,
    head: ["", ...models.map((m) => m.label)],
    rows: ["item_auc", "item_precision"].flatMap((measure) => groups.map((g) => [
      `${measure === "item_auc" ? "AUC" : "precision"}, ${g}`,
      ...models.map((m) => number(meanOf(m, measure, g), 3))])),
  };
}

/** A thin line from the lowest to the highest model of each group. */
function rungs(groups, values) {
  return groups.map((group) => {
    const known = values(group).filter((v) => Number.isFinite(v));
    return { mode: "lines", hoverinfo: "skip", y: [group, group],
      x: known.length ? [Math.min(...known), Math.max(...known)] : [],
      line: { color: color("--rule"), width: 3 } };
  });
}

function holdoutFigure() {
  const models = shown();
  // metrics of groups have several numbers, which are in the table of the terminal
  const single = ([key]) => state.report.variants.every((v) => Object.keys(v.means[key] || {}).length < 2);
  const own = Object.entries(state.report.settings.metrics).map(([key, label]) => [key, label, ""]);
  const metrics = [...METRICS, ...own.filter(single)].filter(([key]) => state.report.variants.some((v) => v.means[key]));
  const { k } = state.report.settings;
  const panels = metrics.map(([key, title, hint]) => ({
    title: metrics.findIndex((m) => m[0] === key) < 4 ? `${title}@${k}` : title, hint,
    traces: models.filter((m) => meansOf(m, key).length).map((m) => rankCurve(m, meansOf(m, key))),
    x: rankAxis(4), y: { nticks: 4, rangemode: "tozero" }, shapes: [rankLine()],
    margin: { l: 42, r: 8, b: 34 },
  }));
  return {
    panels,
    gist: `NDCG@${k} at rank ${state.rank}: `
      + `${listed((m) => meanOf(m, "ndcg"), (ndcg) => number(ndcg, 3))}.`,
    head: ["rank", "", ...models.map((m) => m.label)],
    rows: metrics.flatMap(([key, title]) => state.ranks.map((rank) => [String(rank), title,
      ...models.map((m) => digits(meansOf(m, key)[m.variant.sizes.indexOf(rank)] ?? NaN))])),
  };
}

function frontierFigure() {
  const visible = shown();
  const weighted = visible.some((m) => m.variant.kind === "item-weighted");
  const background = weighted ? state.report.variants
    .filter((v) => v.kind === "item-weighted" && exponentOf(v) !== state.gamma).map(model) : [];
  const narrow = window.innerWidth < 640; // too narrow to label every γ
  const traces = [...background.map((slot) => path(slot, false)),
    ...visible.map((slot) => path(slot, true)), ...visible.map(ring)];
  const [pca, ours] = pair();
  const at = (slot) => `NDCG ${number(point(slot, slot.at)[1], 3)} with `
    + `${percent(point(slot, slot.at)[0], 1)} long-tail items`;
  const values = [pca, ours].filter(Boolean).map((slot) => `${slot.label}: ${at(slot)}`);
  return {
    panels: [{ traces, margin: { l: 58 },
      annotations: [...(narrow ? [] : background), ...visible].flatMap(gammaNote),
      x: { title: "APLT: share of long-tail items in the lists", tickformat: ".0%" },
      y: { title: `NDCG@${state.report.settings.k}` } }],
    gist: `At rank ${state.rank}. ${values.join("; ") || "No model is shown"}.`,
    head: ["model", "rank", "NDCG", "APLT"],
    rows: [...visible, ...background].flatMap((slot) => slot.variant.sizes.map((rank, place) => {
      const [aplt, ndcg] = point(slot, place);
      return [slot.label, String(rank), number(ndcg, 3), percent(aplt, 1)];
    })),
  };
}

function point(slot, at) {
  return ["aplt", "ndcg"].map((measure) => meansOf(slot, measure)[at] ?? NaN);
}

function path(slot, strong) {
  const points = slot.variant.sizes.map((_, at) => point(slot, at));
  const hue = strong ? color(slot.color) : faint(slot.color, 0.38);
  return { meta: slot.variant.key, mode: "lines+markers",
    x: points.map((p) => p[0]), y: points.map((p) => p[1]),
    line: { color: hue, dash: slot.dash, width: strong ? 2 : 1 },
    marker: { color: hue, symbol: slot.symbol, size: strong ? 6 : 4 },
    text: slot.variant.sizes.map((rank) => `${forPlot(slot.label)}, rank ${rank}`),
    hovertemplate: "%{text}<br>NDCG %{y:.3f}, APLT %{x:.1%}<extra></extra>" };
}

/** The setting of the sliders. */
function ring(slot) {
  const [x, y] = point(slot, slot.at);
  return { meta: slot.variant.key, mode: "markers", x: [x], y: [y], hoverinfo: "skip",
    marker: { symbol: "circle-open", size: 17, color: color("--ink"), line: { width: 2 } } };
}

/** Each γ is named where its line is highest, others at their ends; γ = 0 is PCA. */
function gammaNote(slot) {
  const points = slot.variant.sizes.map((_, at) => point(slot, at));
  const weighted = slot.variant.kind === "item-weighted";
  const highest = points.reduce((best, p) => (p[1] > best[1] ? p : best), [NaN, -Infinity]);
  const [x, y] = weighted ? highest : points[points.length - 1];
  if (!Number.isFinite(x + y) || (weighted && exponentOf(slot.variant) === 0)) return [];
  const text = weighted ? `γ ${gammaText(exponentOf(slot.variant))}` : forPlot(clipped(slot.short, 18));
  const strong = !weighted || exponentOf(slot.variant) === state.gamma;
  return [{ x, y, text, yanchor: "bottom", yshift: 5,
    font: { size: 11, color: strong ? color(slot.color) : color("--soft") } }];
}
