// Whether a run is healthy: the verdict, the alarms, the machine, and whether what was sampled is what is trained.

import { alarmsOf, verdictOnRuns } from "./alarms.js";
import { ask } from "./api.js";
import { rangeOf } from "./axes.js";
import { make } from "./dom.js";
import { HEALTH } from "./figures.js";
import { heat } from "./heat.js";
import { machineOf } from "./machine.js";
import { panelsOf, settingsOf } from "./panels.js";

export async function health(runs, settings) {
  const range = rangeOf(settings);
  const [whole, alarms, ratios, machines] = await Promise.all([
    Promise.all(runs.map((run) => ask("alarms", { run: run.name }))), // the verdict is on the whole run
    Promise.all(runs.map((run) => ask("alarms", { run: run.name, ...range }))),
    Promise.all(runs.map((run) => ask("histogram", { run: run.name, name: "ratio", ...range }))),
    Promise.all(runs.map((run) => ask("machine", { run: run.name })))]);
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
  return make("section", {}, make("h2", {}, "Health"), verdictOnRuns(runs, whole), machineOf(runs, machines), alarmsOf(runs, alarms), settingsOf(settings), charts);
}
