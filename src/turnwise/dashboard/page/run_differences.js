// What differs between the chosen runs: their recipes, and of two of them the success on held-out tasks.

import { ask } from "./api.js";
import { brief, cells, make, number, percent, table } from "./dom.js";
import { go } from "./place.js";

export async function amongChosen(chosen, settings) {
  if (chosen.length < 2) return make("p", { class: "note" }, "Choose two or more runs to compare their recipes and their held-out success.");
  const one = chosen.find(({ name }) => name === settings.base) || chosen[0];
  const others = chosen.filter((run) => run !== one), other = others.find(({ name }) => name === settings.against) || others[0];
  const found = await ask("paired", { run: one.name, other: other.name }).catch((error) => ({ error: error.message }));
  return make("div", { id: "between" }, recipesOf(chosen), make("h3", {}, "Held-out success after training: " + brief(other.name) + " − " + brief(one.name)),
    chosen.length > 2 ? whichTwo(chosen, one, others, other) : "", pairedOf(found));
}

function whichTwo(chosen, one, others, other) {
  const pick = (id, label, among, picked, keep) => make("label", {}, label + " ", make("select", { id, onchange: (event) => go({ ...keep, [id]: event.target.value }) },
    among.map((run) => make("option", { value: run.name, selected: run === picked }, brief(run.name)))));
  return make("p", { class: "settings" }, pick("against", "compare", others, other, { base: one.name }), pick("base", "with", chosen, one, { against: other.name }));
}

function recipesOf(chosen) {
  const values = chosen.map(({ standing }) => standing.differs || {});
  const keys = [...new Set(values.flatMap((each) => Object.keys(each)))].filter((key) => new Set(values.map((each) => each[key])).size > 1).sort();
  const rows = keys.map((key) => make("tr", { "data-key": key }, cells(key, ...values.map((each) => Object.hasOwn(each, key) ? each[key] : make("span", { class: "note" }, "not there")))));
  return make("div", {}, make("h3", {}, "Where the recipes differ"),
    rows.length ? table(["key", ...chosen.map(({ name }) => brief(name))], rows, { id: "recipes" }) : make("p", { id: "recipes" }, "The recipes are the same."));
}

function pairedOf(found) {
  if (found.error) return make("p", { id: "paired" }, "No comparison: " + found.error);
  if (!found.all) return make("p", { id: "paired" }, "No comparison: the two evaluations have no task in common.");
  const row = (name, each) => make("tr", { "data-label": brief(name) }, cells(brief(name), percent(each.value), each.low === null ? "–" : [percent(each.low), " to ", percent(each.high)], number(each.num_tasks)));
  return make("div", { id: "paired" }, table(["", "difference", "95%", "tasks"], [row("all", found.all), ...Object.entries(found.families).map(([name, each]) => row(name, each))]),
    make("p", { class: "note" }, "Task by task, over tasks with the same id in both runs", found.num_left_out ? [" (", number(found.num_left_out), " tasks are in one only)"] : "",
      ". If the interval does not contain 0, the difference is more than chance. It does not cover how much training itself varies from seed to seed."));
}
