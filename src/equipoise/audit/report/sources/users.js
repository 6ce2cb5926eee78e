// One user: history, held-out items, and what each model recommends, with its reasons.

import { openItem } from "./card.js";
import { model, onChange, state } from "./state.js";
import { clipped, el, named, number, plural } from "./text.js";

export function drawUsers() {
  const { users } = state.report;
  if (!users.length) {
    document.getElementById("users").hidden = true;
    return;
  }
  const choice = document.getElementById("user");
  choice.append(...users.map((user, at) =>
    el("option", { value: at }, clipped(user.user, 60) || "(no id)")));
  choice.addEventListener("change", draw);
  const turn = (by) => () => {
    choice.value = (Number(choice.value) + by + users.length) % users.length;
    draw();
    document.getElementById("announcer").textContent =
      `Shows user ${choice.selectedOptions[0].textContent}`;
  };
  document.getElementById("user-before").addEventListener("click", turn(-1));
  document.getElementById("user-next").addEventListener("click", turn(1));
  onChange((fields) => fields.includes("hidden") && draw());
  draw();
}

function draw() {
  const user = state.report.users[Number(document.getElementById("user").value)];
  const lists = state.report.variants
    .filter((variant) => user.recommended[variant.key])
    .map(model).filter((slot) => !state.hidden.has(slot.slot));
  document.getElementById("user-view").replaceChildren(
    el("div", { class: "past" },
      past("History", user.history, "nothing"), past("Held out", user.held_out, "nothing")),
    el("div", { class: "columns" }, ...lists.map((slot) => listOf(slot, user))));
}

function link(item, most = 60) {
  return el("button", { type: "button", class: "link", onclick: () => openItem(item) },
    named(state.report.items.names[item], most));
}

function past(title, items, none) {
  const most = 14;
  const rest = items.slice(most);
  const box = el("div", {}, el("h3", {}, title, el("span", {}, ` ${number(items.length)}`)),
    items.length ? el("ul", { class: "inline" },
      ...items.slice(0, most).map((item) => el("li", {}, link(item, 40)))) : el("p", {}, none));
  if (rest.length) {
    box.append(el("details", {}, el("summary", {}, `${plural(rest.length, "more", "more")}`),
      el("ul", { class: "inline" }, ...rest.map((item) => el("li", {}, link(item, 40))))));
  }
  return box;
}

function listOf(slot, user) {
  const { items, data } = state.report;
  const hidden = new Set(user.held_out);
  const listed = user.recommended[slot.variant.key];
  const hits = listed.filter(({ item }) => hidden.has(item)).length;
  return el("div", { style: `--hue: var(${slot.color})` },
    el("h4", {}, el("span", { class: "swatch" }), slot.label),
    el("p", {}, `${hits} of ${user.held_out.length} held-out items found`),
    el("ol", { class: "recommended" }, ...listed.map(({ item, because }) =>
      el("li", { class: hidden.has(item) ? "hit" : null },
        link(item), hidden.has(item)
          ? el("span", { class: "tick", role: "img", "aria-label": "held out, found" }, "✓") : null,
        el("span", { class: "tag" }, data.groups[items.group[item]].name),
        because.length ? el("p", { class: "because" }, "because of ",
          ...because.flatMap((reason, at) => [at ? ", " : "", named(items.names[reason], 40)]))
          : null))));
}
