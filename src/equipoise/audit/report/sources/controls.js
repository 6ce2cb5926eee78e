// The bar at the top: sliders and legend; the theme; copying; printing.

import { redraw } from "./charts.js";
import { change, onChange, slots, state, takeAdvice } from "./state.js";
import { el, gammaText } from "./text.js";

export function drawControls() {
  slider("gamma", state.gammas, gammaText);
  slider("rank", state.ranks, String);
  if (state.gammas.length === 0) document.getElementById("gamma-control").hidden = true;
  onChange(drawLegend);
  onChange(announce);
  drawLegend();
  prepareAdvice();
  prepareCopying();
  prepareTheme();
  preparePrinting();
}

/** A slider over given values; the state holds the value, the slider its place. */
function slider(field, values, text) {
  const input = document.getElementById(field);
  const output = document.getElementById(`${field}-value`);
  input.max = Math.max(values.length - 1, 0);
  input.disabled = values.length < 2;
  const update = () => {
    input.value = values.indexOf(state[field]);
    const shown = values.length ? text(state[field]) : "–";
    output.textContent = shown;
    input.setAttribute("aria-valuetext", shown);
    input.style.setProperty("--filled", values.length > 1 ? input.value / (values.length - 1) : 0);
  };
  input.addEventListener("input", () => change({ [field]: values[Number(input.value)] }));
  onChange(update);
  update();
}

function drawLegend() {
  const legend = document.getElementById("legend");
  const focused = document.activeElement && document.activeElement.dataset.slot;
  legend.replaceChildren(...slots().map(({ slot, short, label, color }) =>
    el("button", { type: "button", class: "model", "data-slot": slot, title: label,
      "aria-pressed": String(!state.hidden.has(slot)), style: `--hue: var(${color})`,
      onclick: () => toggle(slot) }, el("span", { class: "swatch" }), el("bdi", {}, short))));
  const again = [...legend.children].find((button) => button.dataset.slot === focused);
  if (focused && again) again.focus();
}

function toggle(slot) {
  const hidden = new Set(state.hidden);
  if (!hidden.delete(slot)) hidden.add(slot);
  change({ hidden });
}

function announce(fields) {
  if (fields.includes("brush")) return; // the item table announces that itself
  const models = slots().filter(({ slot }) => !state.hidden.has(slot)).map(({ short }) => short);
  const gamma = state.gammas.length ? `γ ${gammaText(state.gamma)}, ` : "";
  document.getElementById("announcer").textContent =
    `Charts show ${gamma}rank ${state.rank}: ${models.join(", ") || "no model"}`;
}

function prepareAdvice() {
  const button = document.getElementById("apply");
  button.hidden = state.gammas.length === 0;
  button.addEventListener("click", takeAdvice);
}

function prepareCopying() {
  for (const button of document.querySelectorAll("[data-copy]")) {
    button.addEventListener("click", async () => {
      const node = document.getElementById(button.dataset.copy);
      const done = await copied(node);
      button.textContent = done ? "Copied" : "Press Ctrl+C";
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
  }
}

/** Through the clipboard, or by selecting the text where the browser forbids that for files. */
async function copied(node) {
  try {
    await navigator.clipboard.writeText(node.textContent);
    return true;
  } catch {
    window.getSelection().selectAllChildren(node);
    return false;
  }
}

function prepareTheme() {
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const update = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", isDark() ? "Use light colors" : "Use dark colors");
  };
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    update();
    redraw();
  });
  system.addEventListener("change", () => { update(); redraw(); });
  update();
}

/** On paper: light, as wide as a page. Plots have fixed sizes, so they are drawn again. */
function preparePrinting() {
  const root = document.documentElement;
  const media = window.matchMedia("print");
  const set = (printing) => {
    if (root.classList.contains("printing") === printing) return;
    root.classList.toggle("printing", printing);
    redraw(true);
  };
  window.addEventListener("beforeprint", () => set(true));
  window.addEventListener("afterprint", () => set(false));
  media.addEventListener("change", () => set(media.matches));
}
