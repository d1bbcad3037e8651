// Panels' charts side by side for some runs, and the menu with the settings that belong to all charts.

import { ask } from "./api.js";
import { AXES, axisOf, rangeNames, rangeOf, WHOLE_RANGE } from "./axes.js";
import { lines, opener, smooth, windowOf } from "./charts.js";
import { make, num, options, pct } from "./dom.js";
import { isShare, namesOf } from "./figures.js";
import { go } from "./place.js";
import { meanOf, seedGroups } from "./seeds.js";

const COLOURS = ["var(--s1)", "var(--s2)", "var(--s3)", "var(--s4)", "var(--s5)", "var(--s6)"], DASHES = [null, "6 3", "2 3", "7 3 2 3"];

// The colour of a run among the chosen ones: the first is ink, the seventh and later ones are grey.
export function colourOf(at) {
  return at === 0 ? "var(--ink)" : COLOURS[at - 1] || "var(--none)";
}

// The means that are drawn over values as logged; without them, null. `smooth` may be a share, as older addresses have it.
export function meansOf(values, wanted) {
  const asked = Number(wanted || 0), width = wanted === "off" || wanted === "0" ? 0 : asked > 0 && asked < 1 ? Math.round(1 / (1 - asked)) : asked || windowOf(values.length);
  return width > 1 && values.length > 2 ? smooth(values, width) : null;
}

// The steps that the axis of a run's charts spans.
export function spanOf(run) {
  return Math.max(0, (run.standing.num_steps || 1) - 1, run.standing.last_step || 0);
}

// runs: [{ name, standing }]; answers one element with every panel that has something to show.
export async function panelsOf(panels, runs, settings, { limits = () => [], alarms = [], before = [] } = {}) {
  const axis = axisOf(settings);
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
    const drawn = shown.flatMap((group, at) => names.map((name) => ({ group, at, name, own: group.runs.map((run) => lineOfRun(run, name)).filter(Boolean) }))).filter(({ own }) => own.length).map(({ group, at, name, own }) => {
      const line = own.length > 1 ? { ...meanOf(own), run: group.label, name } : own[0], isDots = name.startsWith("heldout/");
      return { ...line, isDots, means: isDots ? null : meansOf(line.values, settings.smooth), label: isMany ? group.label + (names.length > 1 ? " " + name : "") : group.runs.length > 1 ? group.name + " " + name : name,
        colour: isMany ? colourOf(at) : COLOURS[names.indexOf(name) % COLOURS.length], dash: isMany ? DASHES[names.indexOf(name) % DASHES.length] : null };
    });
    if (drawn.length) grid.append(panelChart(panel, drawn, names, { axis, settings, runs, limits: limits(panel), alarms }));
    else missing.push(panel.title);
  }
  const rest = missing.length ? make("p", { class: "note" }, "Not logged by " + (runs.length > 1 ? "these runs" : "this run") + (axis === "step" ? "" : ", or not over " + AXES[axis].unit) + ": " + missing.join(", ") + ".") : "";
  return make("div", {}, groups.length < runs.length ? make("p", { class: "note" }, "Runs that differ by their seed only are drawn " + (areTogether ? "as their mean, with a band from the lowest to the highest." : "each.")) : "", grid, rest);
}

function panelChart(panel, drawn, names, { axis, settings, runs, limits, alarms }) {
  const isPercent = names.every(isShare), isSuccess = names.every((name) => /^(success|validation\/success|heldout\/success)/.test(name));
  const isRange = ["first", "last", "from", "to"].some((name) => settings[name]), end = axis === "step" && !isRange ? Math.max(...runs.map(spanOf)) : 0;
  const say = isPercent ? pct : num, start = axis === "step" && !isRange ? 0 : Math.min(...drawn.map((line) => line.xs[0]));
  return lines({ key: panel.key, title: panel.title, note: panel.note, drawn: drawn.map((line) => ({ ...line, labelled: drawn.length === 1 ? say((line.means || line.values)[line.xs.length - 1]) : null })), start, span: end, y: isSuccess && !settings.log ? [0, 1] : null, say,
    height: 200, right: drawn.length === 1 ? 60 : 150, left: 54, limits, events: alarms.map((alarm) => ({ ...alarm, words: "" })), axis, isLog: Boolean(settings.log), open: opener(drawn) });
}

// What charts are over, their means, the range and the scale: one menu for all of them.
export function viewMenu(settings, { hasSeeds = false } = {}) {
  const axis = axisOf(settings), [low, high] = rangeNames(axis), { unit } = AXES[axis], change = (name) => (event) => go({ [name]: event.target.value });
  const pick = (id, label, list, value, more) => make("label", {}, label, " ", make("select", { id, onchange: change(id), ...more }, options(list, value)));
  const end = (name, label) => make("label", {}, label, " ", make("input", { id: name, type: "number", min: 0, step: "any", value: settings[name] || "", onchange: change(name) }));
  const means = [["", "on"], ["3", "over 3"], ["9", "over 9"], ["33", "over 33"], ["off", "off"]];
  return make("details", { class: "menu", id: "view-menu" }, make("summary", {}, "View"), make("form", { onsubmit: (event) => event.preventDefault() },
    pick("axis", "over", Object.entries(AXES).map(([value, { title }]) => [value, title]), axis, { onchange: (event) => go({ ...WHOLE_RANGE, axis: event.target.value === "step" ? "" : event.target.value }) }),
    pick("smooth", "means over neighbours", means.some(([value]) => value === (settings.smooth || "")) ? means : [...means, [settings.smooth, settings.smooth]], settings.smooth || ""),
    end(low, unit + " from"), end(high, "to"), hasSeeds ? pick("seeds", "seeds", [["", "together"], ["each", "each"]], settings.seeds || "") : "",
    make("label", { title: "for charts whose values are all above 0" }, make("input", { id: "log", type: "checkbox", checked: Boolean(settings.log), onchange: (event) => go({ log: event.target.checked ? 1 : "" }) }), " log scale"),
    make("button", { type: "button", class: "pill", id: "whole", onclick: () => go({ ...WHOLE_RANGE, axis: "", smooth: "", log: "", seeds: "" }) }, "all steps, as usual")));
}
