// One user: history, held-out items, and what each model recommends, with its reasons.

import { itemLink } from "./card.js";
import { model, onChange, state } from "./state.js";
import { byId, clipped, el, firstOf, modelColumn, named, number } from "./text.js";

const MOST_ITEMS = 14; // others are behind a button

export function drawUsers() {
  const { users } = state.report;
  if (!users.length) {
    byId("users").hidden = true;
    return;
  }
  const choice = byId("user");
  choice.append(...users.map((user, at) =>
    el("option", { value: at }, clipped(user.user, 60) || "(no id)")));
  choice.addEventListener("change", draw);
  const turn = (by) => () => {
    choice.value = (Number(choice.value) + by + users.length) % users.length;
    draw();
    byId("announcer").textContent =
      `Shows user ${choice.selectedOptions[0].textContent}`;
  };
  byId("user-before").addEventListener("click", turn(-1));
  byId("user-next").addEventListener("click", turn(1));
  onChange((fields) => fields.includes("hidden") && draw());
  draw();
}

function draw() {
  const user = state.report.users[Number(byId("user").value)];
  const lists = state.report.variants
    .filter((variant) => user.recommended[variant.key])
    .map(model).filter((slot) => !state.hidden.has(slot.slot));
  byId("user-view").replaceChildren(
    el("div", { class: "past" },
      past("History", user.history), past("Held out", user.held_out)),
    el("div", { class: "columns" }, ...lists.map((slot) => listOf(slot, user))));
}

function past(title, items) {
  const links = items.map((item) => el("li", {}, itemLink(item, 40)));
  const list = (nodes) => el("ul", { class: "inline" }, ...nodes);
  return el("div", {}, el("h3", {}, title, el("span", {}, ` ${number(items.length)}`)),
    items.length ? null : el("p", {}, "nothing"), ...firstOf(links, MOST_ITEMS, list));
}

function listOf(slot, user) {
  const { items, data } = state.report;
  const hidden = new Set(user.held_out);
  const listed = user.recommended[slot.variant.key];
  const hits = listed.filter(({ item }) => hidden.has(item)).length;
  return modelColumn(slot,
    el("p", {}, `${hits} of ${user.held_out.length} held-out items found`),
    el("ol", { class: "recommended" }, ...listed.map(({ item, because }) =>
      el("li", { class: hidden.has(item) ? "hit" : null },
        itemLink(item), hidden.has(item)
          ? el("span", { class: "tick", role: "img", "aria-label": "held out, found" }, "✓") : null,
        el("span", { class: "tag" }, data.groups[items.group[item]].name),
        because.length ? el("p", { class: "because" }, "because of ",
          ...because.flatMap((reason, at) => [at ? ", " : "", named(items.names[reason], 40)]))
          : null))));
}
