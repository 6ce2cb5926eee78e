// The values of the sliders and the models that are shown. Charts listen to changes.

import { clipped, gammaText } from "./text.js";

const KINDS = ["pca", "normalized", "item-weighted"];
const DASHES = ["solid", "dot", "solid", "dash", "dashdot", "longdash", "longdashdot"];
export const SYMBOLS = ["circle", "diamond", "square", "triangle-up", "cross", "triangle-down", "star"];
const COLORS = 8; // --model-0 … --model-7 in style.css

export const state = {
  report: null, gammas: [], ranks: [], gamma: 0, rank: 0, hidden: new Set(), brush: null,
};

const listeners = [];

/** Call `listener(what)` after each change; `what` names the fields. */
export function onChange(listener) {
  listeners.push(listener);
}

/** Change the state and call all listeners. */
export function change(fields) {
  Object.assign(state, fields);
  for (const listener of listeners) listener(Object.keys(fields));
}

/** Begin at the audited setting. */
export function begin(report) {
  const { settings, variants } = report;
  const descending = (a, b) => b - a;
  const weighted = variants.filter((v) => v.kind === "item-weighted");
  state.report = report;
  const gammas = [...new Set(weighted.map(exponentOf))];
  const ranked = variants.filter((v) => !isWhole(v));
  const ranks = [...new Set((ranked.length ? ranked : variants).flatMap((v) => v.sizes))];
  state.gammas = gammas.sort(descending); // from PCA on the left to more and more weight
  state.ranks = ranks.sort((a, b) => a - b);
  state.gamma = nearest(state.gammas, settings.audited[settings.exponent_parameter]);
  state.rank = nearest(state.ranks, settings.size);
}

/** Move both sliders to the recommended setting, or to the nearest that was measured. */
export function takeAdvice() {
  const { settings } = state.report;
  change({ gamma: nearest(state.gammas, settings.audited[settings.exponent_parameter]),
    rank: nearest(state.ranks, settings.size) });
}

/** The exponent of the item weights; undefined for other models. */
export function exponentOf(variant) {
  return variant.settings[state.report.settings.exponent_parameter];
}

/** Whether a model has no components to truncate: an item × item matrix, or any other model. */
export function isWhole(variant) {
  return variant.kind === "scores" || variant.kind === "model"
    || (variant.kind === "advised" && variant.sizes.length === 1);
}

function nearest(values, wanted) {
  return values.reduce((best, value) =>
    (Math.abs(value - wanted) < Math.abs(best - wanted) ? value : best), values[0]);
}

/** The models of the legend: one slot each, Item-Weighted PCA at the slider's γ. */
export function slots() {
  const { variants } = state.report;
  const own = KINDS.flatMap((kind) => variants.filter((v) =>
    v.kind === kind && (kind !== "item-weighted" || exponentOf(v) === state.gamma)));
  const files = variants.filter((v) => !KINDS.includes(v.kind));
  return inOrder([...own, ...files]).map((variant) => model(variant));
}

/** The audited model first, then the advised one. */
export function inOrder(variants) {
  const { subject, advised } = state.report;
  const place = ({ key }) => [subject, advised].indexOf(key) + 1 || 3;
  return variants.slice().sort((a, b) => place(a) - place(b));
}

/** Those that are not hidden. */
export function shown() {
  return slots().filter((slot) => !state.hidden.has(slot.slot));
}

/** A variant with its look; all γ share the slot and color of Item-Weighted PCA. */
export function model(variant) {
  const kind = KINDS.indexOf(variant.kind);
  const files = state.report.variants.filter((v) => !KINDS.includes(v.kind));
  const number = kind >= 0 ? kind : KINDS.length + files.indexOf(variant);
  const weighted = variant.kind === "item-weighted";
  return {
    variant,
    slot: weighted ? "item-weighted" : variant.key,
    label: clipped(variant.label, 60) + (weighted ? ` (γ\u00a0${gammaText(exponentOf(variant))})` : ""),
    short: clipped(variant.label, 26),
    color: `--model-${number % COLORS}`,
    dash: DASHES[number % DASHES.length],
    symbol: SYMBOLS[number % SYMBOLS.length],
    at: place(variant),
  };
}

/** Position of the slider's rank, or of the nearest below it, among the variant's sizes. */
export function place(variant) {
  const below = variant.sizes.filter((rank) => rank <= state.rank).length;
  return Math.max(below - 1, 0);
}

/** The audited and the advised model, where they are shown; the second is none if nothing is better. */
export function pair() {
  const { subject, advised, variants } = state.report;
  const slotOf = (key) => model(variants.find((variant) => variant.key === key)).slot;
  const find = (key) => shown().find(({ slot }) => slot === slotOf(key));
  return [find(subject), slotOf(subject) === slotOf(advised) ? undefined : find(advised)];
}

/** "PCA 0.97, Normalized PCA 0.84": one number for each model that is shown and has it. */
export function listed(value, text) {
  const known = shown().filter((slot) => Number.isFinite(value(slot) ?? NaN));
  return known.map((slot) => `${slot.label} ${text(value(slot), slot)}`).join(", ") || "no model";
}

/** Means over the sizes of a model; empty if it has none. */
export function meansOf({ variant }, measure, group = "all") {
  return (variant.means[measure] || {})[group] || [];
}

/** The mean at the slider's rank; NaN if the model has none. */
export function meanOf(slot, measure, group = "all") {
  return meansOf(slot, measure, group)[slot.at] ?? NaN;
}

export function groupNames() {
  return state.report.data.groups.map((group) => group.name);
}
