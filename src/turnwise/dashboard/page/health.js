// Whether what was sampled is what is trained, and each alarm where it fired.

import { ask } from "./api.js";
import { rangeOf } from "./axes.js";
import { badge, cells, make, number, table } from "./dom.js";
import { HEALTH } from "./figures.js";
import { heat } from "./heat.js";
import { panelsOf, settingsOf } from "./panels.js";
import { moved } from "./place.js";

export async function health(runs, settings) {
  const range = rangeOf(settings);
  const [alarms, ratios] = await Promise.all([
    Promise.all(runs.map((run) => ask("alarms", { run: run.name, ...range }))),
    Promise.all(runs.map((run) => ask("histogram", { run: run.name, name: "ratio", ...range })))]);
  const rules = runs[0].standing.health || {};
  const limits = (panel) => {
    const rule = panel.rule && rules[panel.rule];
    return rule ? [{ value: rule.threshold }] : [];
  };
  const steps = [...new Set(alarms.flatMap((each) => each.alarms.map((alarm) => alarm.x === undefined ? alarm.step : alarm.x)))].filter((x) => x !== null);
  const pictures = runs.map((run, place) => ratios[place].columns.length ? heat({
    ...ratios[place], bounds: run.standing.clip, run: run.name, key: "ratios-" + place,
    title: "Ratios" + (runs.length > 1 ? ", " + run.name : ""),
    note: "Each column is a step: how many tokens have which new-over-old probability; dashed, where clipping begins.",
  }) : "");
  const charts = await panelsOf(HEALTH, runs, settings, { limits, alarms: steps, before: pictures });
  return make("section", {}, make("h2", {}, "Health"), alarmsOf(runs, alarms), settingsOf(settings), charts);
}

function alarmsOf(runs, alarms) {
  const rows = runs.flatMap((run, place) => alarms[place].alarms.map((alarm) => make("tr", { "data-step": alarm.step },
    cells(runs.length > 1 ? run.name : badge(alarm.level, alarm.level === "halt" ? "bad" : "warn"),
      make("a", { href: moved({ first: alarm.step, last: alarm.step, run: run.name, source: "train" }, "trajectories") }, number(alarm.step)),
      alarm.name, number(alarm.value), number(alarm.threshold), alarm.message))));
  if (!rows.length) return make("p", { id: "alarms", class: "good" }, "No alarm has fired.");
  const shown = make("details", { id: "alarms", open: rows.length <= 30 }, make("summary", {}, rows.length === 1 ? "1 alarm" : rows.length + " alarms, the newest first"),
    table([runs.length > 1 ? "run" : "", "step", "rule", "value", "limit", "what it means and what to try"], rows));
  return shown;
}
