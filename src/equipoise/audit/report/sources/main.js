// Begin: unzip the charting library and the data, then draw everything.

import { prepareCard } from "./card.js";
import { drawSoon, followState } from "./charts.js";
import { drawContest } from "./contest.js";
import { drawControls } from "./controls.js";
import { load, unzipped } from "./data.js";
import { drawFloors } from "./floors.js";
import { drawGroups } from "./groups.js";
import { drawItems } from "./items.js";
import { drawMechanisms } from "./mechanisms.js";
import { drawOutcomes } from "./outcomes.js";
import { drawn } from "./shapes.js";
import { begin, state } from "./state.js";
import { drawUsers } from "./users.js";
import { el, number } from "./text.js";

/** The library runs as an inline script; the policy of the page allows exactly this text. */
async function loadPlotly() {
  const text = new TextDecoder().decode(await unzipped("library"));
  const script = el("script");
  script.textContent = text;
  document.head.append(script);
}

function tellSample() {
  const { count } = state.report.items;
  const points = drawn().length;
  document.getElementById("drawn").textContent = points < count
    ? `The scatter plots draw ${number(points)} of ${number(count)} items: the most popular, those `
      + "with the largest self-reconstruction, and an even sample by popularity. Medians, brush and table "
      + "use all of them."
    : `The scatter plots draw all ${number(count)} items.`;
}

async function main() {
  if (!("DecompressionStream" in window)) {
    throw new Error("this browser cannot unzip; use one from 2023 or later");
  }
  const [report] = await Promise.all([load(), loadPlotly()]);
  begin(report);
  followState();
  drawControls();
  prepareCard();
  drawContest();
  drawFloors();
  drawMechanisms();
  drawOutcomes();
  drawItems();
  drawGroups();
  drawUsers();
  tellSample();
  drawSoon();
}

main().catch((error) => {
  const failure = document.getElementById("failure");
  failure.textContent = `The charts could not be drawn: ${error.message}.`;
  failure.hidden = false;
  document.body.dataset.drawing = "false";
  throw error;
});
