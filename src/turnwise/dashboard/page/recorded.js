// Takes the data written into an exported file, gives the answers the server would have given.

import { excerptIn } from "./search.js";

let data;

export function recorded() {
  if (data === undefined) {
    const element = document.getElementById("recorded");
    data = element ? new Recorded(JSON.parse(element.textContent)) : null;
  }
  return data;
}

class Recorded {
  constructor(written) {
    this.written = written;
  }

  answer(path, parameters) {
    if (path === "runs") return this.written.runs;
    if (path === "failed_starts" || path === "explorations") return [];
    const run = this.written.answers[parameters.run] || {};
    if (path === "series") return this.series(run, parameters);
    if (path === "trajectories") return this.list(run, parameters);
    if (path === "groups") return this.groups(run, parameters);
    if (path === "calls") return callsWithin(run, parameters);
    if (path === "trajectory" || path === "group" || path === "tokens") {
      const whole = (run.trajectory || {})[parameters.id];
      const found = whole && run[path][path === "group" ? whole.group[0].id : parameters.id];
      if (!found) throw new Error("this episode was not written into the file; open the run itself");
      return found;
    }
    if (path === "paired") {
      const others = [parameters.other].flat(), missing = { error: "this comparison was not written into the file; open the runs themselves" };
      const isAll = others.length + 1 === this.written.runs.runs.length;
      return { heading: isAll ? this.written.compared : others.length + 1 + " runs of this file.", found: Object.fromEntries(others.map((other) => [other, (run.paired || {})[other] || missing])) };
    }
    if (path === "comparison") {
      const found = (run.comparison || {})[parameters.before + " " + parameters.after];
      if (!found) throw new Error("this comparison was not written into the file; open the run itself");
      return found;
    }
    const isRange = ["first", "last", "from", "to"].some((name) => parameters[name]);
    if (path === "tools") return { ...(run.tools || {})[parameters.source || "train"], note: isRange ? "In this file tools are counted over all steps; open the run itself for a range." : "" };
    const isIn = (step) => within(step, parameters, run.axes);
    if (path === "alarms") return { ...run.alarms, alarms: run.alarms.alarms.filter((alarm) => isIn(alarm.step)).map((alarm) => ({ ...alarm, x: placeOf(alarm.step, parameters, run.axes) })), note: isRange ? "In this file alarms are counted over all steps; open the run itself for a range." : "" };
    if (path === "histogram") return { ...run.histogram, columns: run.histogram.columns.filter((column) => isIn(column.first) || isIn(column.last)) };
    return run[path];
  }

  series(run, asked) {
    const empty = { steps: [], values: [], lows: [], highs: [] };
    return Object.fromEntries([asked.name].flat().map((each) => {
      const line = run.series[each] || empty;
      const kept = line.steps.map((step) => within(step, asked, run.axes) && placeOf(step, asked, run.axes) !== undefined);
      const found = Object.fromEntries(Object.entries(line).map(([key, list]) => [key, list.filter((_, at) => kept[at])]));
      if (asked.axis) found.xs = found.steps.map((step, at) => found.sources && found.sources[at] === "before" ? 0 : placeOf(step, asked, run.axes));
      return [each, found];
    }));
  }

  // The groups whose tries are in the file, the newest step and its divided groups first.
  groups(run, asked) {
    const found = new Map(), fit = new Set(this.list(run, { ...asked, offset: 0, limit: 1e9 }).rows.map((row) => row.source + " " + row.step + " " + row.task));
    for (const row of run.rows) {
      const key = row.source + " " + row.step + " " + row.task;
      if (fit.has(key)) found.set(key, [...(found.get(key) || []), row]);
    }
    const all = [...found.values()].map((rows) => {
      const members = [...rows].sort((a, b) => a.id - b.id), [first] = members, won = members.filter((row) => row.is_success).length, judged = members.filter((row) => row.is_success !== null).length;
      return { ...first, num: members.length, won, kind: judged && won === judged ? "all" : won ? "some" : "none", members };
    }).filter((group) => !asked.kind || group.kind === asked.kind).sort((a, b) => b.step - a.step || (b.kind === "some") - (a.kind === "some") || a.id - b.id);
    const start = Number(asked.offset || 0);
    return { total: all.length, num_episodes: all.reduce((sum, group) => sum + group.num, 0), num_left_out: run.choices.num_episodes - run.rows.length, rows: all.slice(start, start + Number(asked.limit || 100)) };
  }

  list(run, asked) {
    const rows = run.rows.filter((row) =>
      ["source", "family", "difficulty", "stop", "fault"].every((key) => !asked[key] || row[key] === asked[key]) &&
      (!asked.task || row.task.toLowerCase().includes(asked.task.toLowerCase())) &&
      (!asked.check || row.failed_check === asked.check) &&
      (!(asked.tool || asked.error) || row.calls.some(([tool, cause]) => (!asked.tool || tool === asked.tool) && (!asked.error || cause === asked.error || (asked.error === "any" && cause !== "ok")))) &&
      (!asked.success || Number(asked.success) === row.is_success) &&
      within(row.step, asked) &&
      (!asked.low || row.reward >= Number(asked.low)) && (!asked.high || row.reward <= Number(asked.high)));
    const search = asked.search ? { num_searched: run.rows.length, num_episodes: run.rows.length, problem: "" } : null;
    const fit = search ? rows.map((row) => ({ ...row, excerpt: excerptIn(run.trajectory[row.id], asked.search) })).filter((row) => row.excerpt) : rows;
    fit.sort((a, b) => b.step - a.step);
    const start = Number(asked.offset || 0);
    return { total: fit.length, search, num_left_out: run.choices.num_episodes - run.rows.length, rows: fit.slice(start, start + Number(asked.limit || 50)) };
  }
}

// The calls of the episodes in the file that pass the filter, the newest step first.
function callsWithin(run, asked) {
  const servers = Object.fromEntries(run.tools[asked.source].tools.map((tool) => [tool.tool, tool.server]));
  const fits = (call) => asked.error === "retried" ? call.result.num_retries > 0 : asked.error === "infra" ? call.result.fault === "infra" : asked.error ? call.result.cause === asked.error : call.result.cause !== "ok";
  const rows = run.rows.filter((row) => row.source === asked.source && within(row.step, asked, run.axes)).flatMap((row) => run.trajectory[row.id].turns.flatMap((turn, place) =>
    turn.calls.filter((call) => call.result && fits(call) && (!asked.tool || call.name === asked.tool) && (!asked.server || servers[call.name] === asked.server)).map((call) => ({
      id: row.id, source: row.source, step: row.step, task: row.task, turn: place + 1, tool: call.name, cause: call.result.cause, seconds: call.result.seconds, num_retries: call.result.num_retries, fault: call.result.fault, arguments: call.arguments, content: call.result.content }))));
  rows.sort((a, b) => b.step - a.step);
  const start = Number(asked.offset || 0);
  return { total: rows.length, rows: rows.slice(start, start + asked.limit) };
}

// Where a step is on the axis that is asked for.
function placeOf(step, { axis }, axes) {
  return axis ? axes[axis][step] : step;
}

// Whether a step is among those asked for, by its number and by its place on the axis.
function within(step, asked, axes) {
  const { first, last, axis, from, to } = asked;
  if ((first && step < Number(first)) || (last && step > Number(last))) return false;
  const at = axis ? placeOf(step, asked, axes) : undefined;
  return !axis || !(from || to) || (at !== undefined && (!from || at >= Number(from)) && (!to || at <= Number(to)));
}
