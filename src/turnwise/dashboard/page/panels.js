// Takes panels and runs, gives their charts side by side, with the settings that belong to all of them.

import { ask } from "./api.js";
import { curves, DASHES } from "./curves.js";
import { make } from "./dom.js";
import { namesOf } from "./figures.js";
import { go } from "./place.js";

const COLOURS = 8, PATTERNS = Object.keys(DASHES);

// runs: [{ name, standing }]; answers one element with every panel that has something to show.
export async function panelsOf(panels, runs, settings, { limits = () => [], alarms = [], before = [] } = {}) {
  const smooth = Number(settings.smooth || 0);
  const range = { first: settings.first, last: settings.last };
  const known = await Promise.all(runs.map((run) => ask("names", { run: run.name })));
  const wanted = runs.map((_, place) => [...new Set(panels.flatMap((panel) => namesOf(panel, panels, known[place])))]);
  const found = await Promise.all(runs.map((run, place) => wanted[place].length ? ask("series", { run: run.name, name: wanted[place], ...range }) : {}));
  const grid = make("div", { class: "grid" }, before), missing = [];
  for (const panel of panels) {
    const names = [...new Set(runs.flatMap((_, place) => namesOf(panel, panels, known[place])))];
    const lines = runs.flatMap((run, place) => names.filter((name) => found[place][name]).map((name) => ({
      ...found[place][name],
      label: runs.length > 1 ? run.name + " " + name : name,
      colour: "c" + (1 + (runs.length > 1 ? run.colour : names.indexOf(name)) % COLOURS),
      dash: runs.length > 1 ? PATTERNS[names.indexOf(name) % PATTERNS.length] : name.startsWith("heldout/") ? "dotted" : "solid",
    }))).filter((line) => line.steps.length);
    if (lines.length) grid.append(curves({ ...panel, lines, smooth, isLog: Boolean(settings.log), limits: limits(panel), alarms }));
    else missing.push(panel.title);
  }
  const rest = missing.length ? make("p", { class: "note" }, "Not logged by " + (runs.length > 1 ? "these runs" : "this run") + ": " + missing.join(", ") + ".") : "";
  return make("div", {}, grid, rest);
}

// Smoothing, the range of steps and the scale.
export function settingsOf(settings) {
  const said = make("output", { class: "number" }, settings.smooth || "0");
  const change = (name) => (event) => go({ [name]: event.target.value });
  return make("form", { class: "settings", onsubmit: (event) => event.preventDefault() },
    make("label", {}, "smoothing ", make("input", { id: "smooth", type: "range", min: 0, max: 0.98, step: 0.02, value: settings.smooth || 0, oninput: (event) => { said.textContent = event.target.value; }, onchange: change("smooth") }), said),
    make("label", {}, "steps from ", make("input", { id: "first", type: "number", min: 0, value: settings.first || "", onchange: change("first") })),
    make("label", {}, "to ", make("input", { id: "last", type: "number", min: 0, value: settings.last || "", onchange: change("last") })),
    make("label", { title: "for charts whose values are all above 0" }, make("input", { id: "log", type: "checkbox", checked: Boolean(settings.log), onchange: (event) => go({ log: event.target.checked ? 1 : "" }) }), "log scale"),
    make("button", { type: "button", onclick: () => go({ smooth: "", first: "", last: "", log: "" }) }, "all steps, as logged"));
}
