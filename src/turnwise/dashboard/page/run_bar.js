// The line at the top of a view of one run: which run it is, and a choice of others.

import { brief, make } from "./dom.js";
import { go } from "./place.js";

const ONE_RUN = ["health", "trajectories", "tools", "evaluations", "tasks", "log", "trajectory"];
const OVERLAID = ["health", "tools"]; // their charts also show the other chosen runs
const MAX_LISTED = 24; // with more runs than this, they are searched for

export function showsOneRun(view) {
  return ONE_RUN.includes(view);
}

// The chosen runs, that of the view first: a view of one run shows the first.
export function currentFirst(chosen, settings) {
  const current = chosen.find((run) => run.name === settings.run);
  return current ? [current, ...chosen.filter((run) => run !== current)] : chosen;
}

export function runBar(view, chosen, runs) {
  const [run, ...others] = chosen;
  const pick = (name) => runs.some((each) => each.name === name) ? (go({ ...OF_ANOTHER_RUN, run: name, runs: runsWith(name, chosen) }, view === "trajectory" ? "trajectories" : view), true) : false;
  const also = others.length && OVERLAID.includes(view) ? make("span", { class: "note" }, "charts also show " + brief(others.map((each) => each.name).join(", "), 120)) : "";
  return make("p", { id: "run-bar" }, make("label", { class: "key c" + (1 + run.colour % 8) }, "run ", runs.length > MAX_LISTED ? search(run, runs, pick) : select(run, runs, pick)),
    make("small", {}, run.standing.state), also);
}

// What belongs to the run that was shown before.
const OF_ANOTHER_RUN = { offset: "", id: "", of: "", group: "", before: "", after: "", file: "", end: "" };

function runsWith(name, chosen) {
  const names = chosen.map((each) => each.name);
  if (names.includes(name)) return names.join(",");
  return names.length > 1 ? [...names, name].join(",") : name;
}

function select(run, runs, pick) {
  return make("select", { id: "run-shown", onchange: (event) => pick(event.target.value) }, runs.map((each) => make("option", { value: each.name, selected: each === run }, brief(each.name))));
}

function search(run, runs, pick) {
  return [make("input", { id: "run-shown", type: "search", list: "all-run-names", value: run.name, onchange: (event) => pick(event.target.value) || (event.target.value = run.name) }),
    make("datalist", { id: "all-run-names" }, runs.map((each) => make("option", { value: each.name }, "")))];
}
