// Whether the runs are healthy, in one sentence each, and the alarms: one group for each kind, with its advice.

import { badge, brief, cells, figure, make, number, percent, table } from "./dom.js";
import { moved } from "./place.js";

const RECENT = 10; // steps: an alarm that fired within the last ones is still a reason to look
const ENDED_BY_FAULT = { crashed: "This run crashed", died: "This run died", damaged: "This run's folder is damaged" };

// found: the answer about alarms of each run, in the order of the runs.
export function verdictOnRuns(runs, found) {
  return make("ul", { id: "verdict", class: "verdict" }, haltedFirst(runs, found).map(([run, alarms]) => {
    const { tone, words, details } = verdictOn(run, alarms);
    return make("li", { "data-run": run.name, "data-tone": tone }, badge(tone === "good" ? "healthy" : tone === "plain" ? "too early" : "look at this", tone), " ", runs.length > 1 ? make("b", {}, run.name + ": ") : "", words, details || "");
  }));
}

function verdictOn({ name, standing }, { groups, num_groups: numGroups, last_step: last }) {
  const [worst] = groups, log = make("a", { href: moved({ run: name }, "log") }, "Its log");
  if (standing.state === "halted") return { tone: "bad", words: "An alarm stopped this run" + (worst ? " at step " + figure(worst.last) + ": " + meaningOf(worst) : "") + "." };
  if (Object.hasOwn(ENDED_BY_FAULT, standing.state)) return { tone: "bad", words: ENDED_BY_FAULT[standing.state] + (standing.reason ? ": " + brief(standing.reason) : "") + ". ", details: [log, " has the last lines."] };
  if (last === null || last === undefined) return { tone: "plain", words: "No step is finished yet." };
  if (!worst) return { tone: "good", words: "No alarm has fired in " + figure(last + 1) + (last ? " steps." : " step.") };
  const newest = groups.reduce((best, group) => group.last > best.last ? group : best);
  if (newest.last > last - RECENT) return { tone: "warn", words: capitalised(meaningOf(newest)) + " (step " + figure(newest.last) + " of " + figure(last) + ")" + (numGroups > 1 ? ", and " + figure(numGroups - 1) + (numGroups === 2 ? " other kind" : " other kinds") + " of alarm" : "") + "." };
  return { tone: "good", words: "No alarm in the last " + RECENT + " steps; the last one fired at step " + figure(newest.last) + "." };
}

export function alarmsOf(runs, found) {
  const groups = haltedFirst(runs, found).flatMap(([run, alarms]) => alarms.groups.map((group) => groupOfAlarms(run, group, alarms.alarms, runs.length > 1)));
  if (!groups.length) return make("p", { id: "alarms", class: "good" }, "No alarm has fired.");
  return make("details", { id: "alarms", open: true }, make("summary", {}, figure(groups.length) + (groups.length === 1 ? " kind of alarm" : " kinds of alarm")),
    found.map((each) => each.note ? make("p", { class: "warn" }, each.note) : ""), groups);
}

function groupOfAlarms(run, group, alarms, isNamed) {
  const toStep = (step, kind) => make("a", { class: kind, href: moved({ first: step, last: step, run: run.name, source: "train", sort: "task" }, "trajectories") }, "step " + figure(step));
  const when = group.num === 1 ? ["once, at ", toStep(group.first, "first")] : [figure(group.num) + " times, from ", toStep(group.first, "first"), " to ", toStep(group.last, "last")];
  const shown = group.is_share ? percent : number;
  const own = alarms.filter((alarm) => alarm.name === group.name && alarm.level === group.level);
  const rows = own.map((alarm) => make("tr", { "data-step": alarm.step }, cells(toStep(alarm.step), shown(alarm.value), shown(alarm.threshold), alarm.message)));
  return make("article", { class: "alarm", "data-alarm": brief(group.name), "data-run": run.name },
    make("h3", {}, badge(group.level === "halt" ? "stopped the run" : "warning", group.level === "halt" ? "bad" : "warn"), " ", brief(group.name), isNamed ? make("small", {}, " of " + run.name) : ""),
    make("p", {}, when, ". Last: ", group.metric ? group.metric + " = " : "", shown(group.value), ", limit ", shown(group.threshold), "."),
    make("p", {}, "It means: ", meaningOf(group) + "."),
    group.remedies.length ? [make("p", {}, "What to do:"), make("ul", {}, group.remedies.map((words) => make("li", {}, words)))] : "",
    Object.keys(group.keys).length ? make("p", { class: "note" }, "In this run's recipe: ", Object.entries(group.keys).map(([key, value], place) => [place ? ", " : "", make("code", {}, key + " = " + value)])) : "",
    make("details", { id: "fired " + run.name + " " + group.name + " " + group.level }, make("summary", {}, rows.length < group.num ? "the newest " + figure(rows.length) : "each time"), table(["step", "value", "limit", "message"], rows)));
}

function meaningOf(group) {
  return brief(group.meaning || group.said || group.name, 400).replace(/\.$/, "");
}

function capitalised(words) {
  return words.charAt(0).toUpperCase() + words.slice(1);
}

// Runs that an alarm stopped come first.
function haltedFirst(runs, found) {
  const pairs = runs.map((run, place) => [run, found[place]]);
  return [...pairs.filter(([run]) => run.standing.state === "halted"), ...pairs.filter(([run]) => run.standing.state !== "halted")];
}
