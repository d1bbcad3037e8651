// Panels' charts side by side for some runs, with the settings that belong to all of them.

import { ask } from "./api.js";
import { AXES, axisOf, rangeNames, rangeOf, WHOLE_RANGE } from "./axes.js";
import { curves } from "./curves.js";
import { make } from "./dom.js";
import { isShare, namesOf } from "./figures.js";
import { go } from "./place.js";
import { meanOf, seedGroups } from "./seeds.js";
import { DASHES } from "./take_away.js";

const COLOURS = 8, PATTERNS = Object.keys(DASHES);

// runs: [{ name, standing }]; answers one element with every panel that has something to show.
export async function panelsOf(panels, runs, settings, { limits = () => [], alarms = [], before = [] } = {}) {
  const smooth = Number(settings.smooth || 0), axis = axisOf(settings);
  const known = await Promise.all(runs.map((run) => ask("names", { run: run.name })));
  const wanted = runs.map((_, place) => [...new Set(panels.flatMap((panel) => namesOf(panel, panels, known[place])))]);
  const found = await Promise.all(runs.map((run, place) => wanted[place].length ? ask("series", { run: run.name, name: wanted[place], ...rangeOf(settings) }) : {}));
  const lineOfRun = (run, name) => {
    const line = found[runs.indexOf(run)][name], xs = line && (line.xs || line.steps);
    return xs && xs.length ? { ...line, xs, run: run.name, name } : null;
  };
  const groups = seedGroups(runs), areTogether = settings.seeds !== "each" && groups.length < runs.length;
  const shown = areTogether ? groups : runs.map((run) => ({ name: run.name, label: run.name, runs: [run] })), isMany = shown.length > 1;
  const grid = make("div", { class: "grid" }, before), missing = [];
  for (const panel of panels) {
    const names = [...new Set(runs.flatMap((_, place) => namesOf(panel, panels, known[place])))];
    const lines = shown.flatMap((group) => names.map((name) => ({ group, name, own: group.runs.map((run) => lineOfRun(run, name)).filter(Boolean) }))).filter(({ own }) => own.length).map(({ group, name, own }) => ({
      ...(own.length > 1 ? { ...meanOf(own), run: group.label, name } : own[0]),
      label: isMany ? group.label + " " + name : group.runs.length > 1 ? group.name + " " + name : name,
      colour: "c" + (1 + (isMany ? group.runs[0].colour : names.indexOf(name)) % COLOURS),
      dash: isMany ? PATTERNS[names.indexOf(name) % PATTERNS.length] : name.startsWith("heldout/") ? "dotted" : "solid",
    }));
    if (lines.length) grid.append(curves({ ...panel, lines, smooth, axis, isShare: names.every(isShare), isLog: Boolean(settings.log), limits: limits(panel), alarms }));
    else missing.push(panel.title);
  }
  const rest = missing.length ? make("p", { class: "note" }, "Not logged by " + (runs.length > 1 ? "these runs" : "this run") + (axis === "step" ? "" : ", or not over " + AXES[axis].unit) + ": " + missing.join(", ") + ".") : "";
  return make("div", {}, groups.length < runs.length ? seedsOf(areTogether) : "", grid, rest);
}

function seedsOf(areTogether) {
  return make("p", { class: "settings" }, make("label", { title: "together: the mean of the runs that differ only by their seed, with a band from the lowest to the highest" }, "seeds ",
    make("select", { id: "seeds", onchange: (event) => go({ seeds: event.target.value }) }, ["each", "together"].map((value) => make("option", { value, selected: (value === "together") === areTogether }, value)))));
}

// What charts are over, smoothing, the range and the scale.
export function settingsOf(settings) {
  const axis = axisOf(settings), [low, high] = rangeNames(axis), { unit } = AXES[axis];
  const said = make("output", { class: "number" }, settings.smooth || "0");
  const change = (name) => (event) => go({ [name]: event.target.value });
  const end = (name, label) => make("label", {}, label, make("input", { id: name, type: "number", min: 0, step: "any", value: settings[name] || "", onchange: change(name) }));
  return make("form", { class: "settings", onsubmit: (event) => event.preventDefault() },
    make("label", {}, "over ", make("select", { id: "axis", onchange: (event) => go({ ...WHOLE_RANGE, axis: event.target.value === "step" ? "" : event.target.value }) },
      Object.entries(AXES).map(([value, { title }]) => make("option", { value, selected: value === axis }, title)))),
    make("label", {}, "smoothing ", make("input", { id: "smooth", type: "range", min: 0, max: 0.98, step: 0.02, value: settings.smooth || 0, oninput: (event) => { said.textContent = event.target.value; }, onchange: change("smooth") }), said),
    end(low, unit + " from "), end(high, "to "),
    make("label", { title: "for charts whose values are all above 0" }, make("input", { id: "log", type: "checkbox", checked: Boolean(settings.log), onchange: (event) => go({ log: event.target.checked ? 1 : "" }) }), "log scale"),
    make("button", { type: "button", onclick: () => go({ ...WHOLE_RANGE, axis: "", smooth: "", log: "" }) }, "all steps, as logged"));
}
