// All runs: which is best, which is running, which needs somebody; and starts that left no run.

import { ask } from "./api.js";
import { dumbbell, spark } from "./charts.js";
import { saveCsv } from "./csv.js";
import { answer, badge, brief, choice, isKnown, make, num, part, pct, plural, searchField, seconds, shortPath, titleOf, whole } from "./dom.js";
import { steadily } from "./live.js";
import { go, link, moved, place } from "./place.js";
import { recorded } from "./recorded.js";
import { dotOf, ENDED_BADLY, isFound } from "./shell.js";

const MAX_ROWS = 100, MAX_STARTS = 20, MAX_CHOSEN = 24, MAX_KEYS = 4;
const OUTPUT = ["run.name", "run.tags", "run.folder", "run.checkpoint_every", "run.keep_checkpoints", "trackers"];
const SHORT_KEYS = { "optimizer.learning_rate": "lr", "rollout.group_size": "group", "run.num_steps": "steps", "run.tasks_per_step": "tasks a step" };

// By name in the address: the head, and what a run is ordered by. Those with `isMore` are shown when asked for.
const RUN_COLUMNS = {
  name: { head: "run", of: (run) => run.name },
  state: { head: "state", of: ({ standing }) => standing.state },
  differs: { head: "differs in", of: ({ standing }) => allDifferences(standing) || null },
  success: { head: "training success", of: ({ standing }) => standing.latest["success/rate"] },
  before: { head: "held-out before", of: ({ standing }) => standing.heldout.before },
  after: { head: "held out", of: ({ standing }) => standing.heldout.after },
  steps: { head: "steps", of: ({ standing }) => standing.last_step === null ? 0 : standing.last_step + 1 },
  seconds: { head: "took", of: ({ standing }) => standing.seconds },
  recipe: { head: "recipe", of: ({ standing }) => standing.recipe_file || null, isMore: true },
  tasks: { head: "held-out tasks", of: ({ standing }) => standing.num_tasks, isMore: true },
  tokens: { head: "sampled tokens", of: ({ standing }) => standing.num_tokens, isMore: true },
  episodes: { head: "episodes", of: ({ standing }) => standing.num_episodes, isMore: true },
  hours: { head: "device hours", of: ({ standing }) => standing.device_hours, isMore: true },
  tags: { head: "tags", of: ({ standing }) => standing.tags.join(" ") || null, isMore: true },
};
const SHOWN = ["name", "state", "differs", "success", "before", "after", "steps", "seconds"];

export async function runTable(chosen, settings, runs, { heading, numExplored }) {
  const sort = Object.hasOwn(RUN_COLUMNS, String(settings.sort).replace(/^-/, "")) ? settings.sort : "", isAll = settings.rows === "all", by = settings.by === "time" || sort ? "" : "recipe";
  const failed = await ask("failed_starts"), fit = runs.filter((run) => isFound(run, settings.find || ""));
  const key = JSON.stringify([sort, settings.find, settings.by]), { items, numNew } = steadily("runs " + key, ordered(fit, sort || (by ? "best" : "newest")), (run) => run.name);
  const listed = isAll ? items : items.slice(0, MAX_ROWS), columns = Object.entries(RUN_COLUMNS).filter(([name, { isMore }]) => !isMore || settings.columns === "all");
  const bad = runs.filter((run) => ENDED_BADLY.includes(run.standing.state)), alarmed = runs.filter((run) => run.standing.alarms.length), running = runs.filter((run) => run.standing.state === "running");
  const lead = runs.length ? [running.length ? plural(running.length, "run is running", "runs are running") : "None is running", bad.length ? plural(bad.length, "ended badly", "ended badly") : "none ended badly", alarmed.length ? plural(alarmed.length, "run") + " had alarms" : "no alarms"].join(" · ")
    : [numExplored ? [make("a", { class: "link", href: link("explored", {}) }, "Explored tasks"), " are here. "] : "", "Start one in another terminal; it appears here by itself: ", make("code", {}, "turnwise demo"), " or ", make("code", {}, "turnwise train recipe.toml")];
  return make("div", {}, answer(runs.length > 1 ? withTitle(heading, runs) : heading, { eyebrow: plural(runs.length, "run"), lead }),
    numNew ? make("p", { class: "notice info", role: "status" }, plural(numNew, "new run"), ": ", make("button", { type: "button", class: "pill", id: "show-new", onclick: () => dispatchEvent(new Event("redraw")) }, "show")) : "",
    runs.length ? make("section", {}, runFilters(settings, fit, columns), rowsOf(listed, chosen, runs, columns, sort, by), items.length > listed.length ? make("p", {}, make("a", { id: "all-rows", class: "link", href: moved({ rows: "all" }) }, "show all " + plural(items.length, "run"))) : "",
      make("p", { class: "note" }, "Success in the table is that of training's last step; held out: ○ before, ● after training, with the 95% interval, on lines at 0, 25, 50, 75 and 100%. Device hours: the time taken × the number of GPUs, or of processes on CPUs.", recorded() ? " Starts that failed are not part of this file." : "")) : "",
    failedPart(failed, settings), dock(chosen));
}

// The best run by its title, where the sentence has its name.
function withTitle(heading, runs) {
  const best = runs.find((run) => titleOf(run.name).when && heading.includes(run.name + ","));
  return best ? heading.replace(best.name, titleOf(best.name).title + ", " + titleOf(best.name).when) : heading;
}

function isNone(value) {
  return value === null || value === undefined;
}

const collator = new Intl.Collator("en", { numeric: true });

// By a column, those without a value last; the best first with the running ones on top; or the newest first.
function ordered(runs, sort) {
  if (sort === "newest") return [...runs].reverse();
  const best = ({ standing }) => standing.state === "running" ? 2 : standing.heldout.after ?? -1;
  if (sort === "best") return [...runs].sort((a, b) => best(b) - best(a) || collator.compare(b.name, a.name));
  const sign = sort.startsWith("-") ? -1 : 1, { of } = RUN_COLUMNS[sort.replace(/^-/, "")];
  return runs.map((run) => [of(run), run]).sort(([one], [other]) => isNone(one) || isNone(other) ? isNone(one) - isNone(other) : sign * (typeof one === "string" ? collator.compare(one, other) : one - other)).map(([, run]) => run);
}

function runFilters(settings, fit, columns) {
  const csv = () => saveCsv("runs", [...Object.values(RUN_COLUMNS).map(({ head }) => head), "reason"], fit.map((run) => [...Object.values(RUN_COLUMNS).map(({ of }) => of(run)), run.standing.reason || ""]));
  const orders = Object.entries(RUN_COLUMNS).flatMap(([name, { head }]) => [[name, head + " ↑"], ["-" + name, head + " ↓"]]);
  return make("div", { class: "filters" }, searchField({ id: "find", placeholder: "Find a name, tag, recipe, state", "aria-label": "find runs", value: settings.find || "", oninput: later((value) => go({ find: value })) }),
    choice("runs in order", [["recipe", "by recipe"], ["time", "by time"]], settings.sort ? "" : settings.by || "recipe", (by) => go({ by: by === "recipe" ? "" : by, sort: "" })),
    make("label", { class: "phone" }, "order by ", make("select", { id: "sort", onchange: (event) => go({ sort: event.target.value }) }, make("option", { value: "" }, "the best first"), orders.map(([value, said]) => make("option", { value, selected: value === settings.sort }, said)))),
    make("span", { class: "fill" }), fit.length > 1 && fit.length <= MAX_CHOSEN ? make("a", { class: "pill", id: "choose-all", href: moved({ runs: fit.map((run) => run.name).join(",") }) }, "choose all " + fit.length) : "",
    make("button", { type: "button", class: "pill desk", id: "columns", "aria-pressed": String(columns.length > SHOWN.length), onclick: () => go({ columns: columns.length > SHOWN.length ? "" : "all" }) }, "Columns"), make("button", { type: "button", class: "pill", id: "csv-runs", title: "save these rows as CSV", onclick: csv }, "CSV"));
}

// What is typed, once the reader has paused.
export function later(take) {
  let waiting = null;
  return (event) => { const { value } = event.target; clearTimeout(waiting); waiting = setTimeout(() => take(value), 250); };
}

function rowsOf(listed, chosen, runs, columns, sort, by) {
  if (!listed.length) return make("p", { id: "run-table", class: "quiet" }, "No run has these words. ", make("button", { type: "button", class: "pill", onclick: () => go({ find: "" }) }, "all runs"));
  const usual = usualOf(runs), groups = new Map();
  for (const run of listed) { const recipe = by ? run.standing.recipe_file || "no recipe file" : ""; groups.set(recipe, [...(groups.get(recipe) || []), run]); }
  const head = ([name, { head: said }]) => {
    const isUp = sort === name, isDown = sort === "-" + name, isNumber = ["after", "steps", "seconds", "tasks", "tokens", "episodes", "hours"].includes(name);
    return make("th", { scope: "col", class: (isNumber ? "num " : "") + (["name", "after"].includes(name) ? "" : "desk"), "aria-sort": isUp ? "ascending" : isDown ? "descending" : null }, make("button", { type: "button", id: "sort-" + name, onclick: () => go({ sort: isUp ? "-" + name : name }) }, said, isUp ? " ↑" : isDown ? " ↓" : ""));
  };
  return make("div", { class: "scroll" }, make("table", { class: "rows", id: "run-table" }, make("thead", {}, make("tr", {}, make("th", { scope: "col", class: "desk" }, make("span", { class: "sr" }, "choose")), columns.map(head))),
    [...groups].map(([recipe, list]) => make("tbody", { "data-key": "recipe " + recipe }, by && groups.size > 1 ? make("tr", { class: "sub" }, make("th", { colspan: columns.length + 1, scope: "rowgroup", title: recipe }, shortPath(recipe), make("span", {}, plural(list.length, "run")))) : "", list.map((run) => runRow(run, chosen, usual, columns))))));
}

// The most common value of each key among the runs of a recipe.
function usualOf(runs) {
  const counts = {};
  for (const { standing } of runs) for (const [key, value] of Object.entries(standing.differs)) {
    const of = ((counts[standing.recipe_file] ||= {})[key] ||= {});
    of[value] = (of[value] || 0) + 1;
  }
  return ({ recipe_file: recipe }, key) => Object.entries((counts[recipe] || {})[key] || {}).sort((a, b) => b[1] - a[1])[0]?.[0];
}

function differencesOf(standing, usual) {
  const pairs = Object.entries(standing.differs).filter(([key, value]) => !OUTPUT.includes(key) && usual(standing, key) !== value);
  return [pairs.slice(0, MAX_KEYS).map(([key, value]) => [make("span", { class: "tag", title: key + " = " + value }, (SHORT_KEYS[key] || brief(key.split(".").pop(), 24)) + " ", make("b", {}, value.includes("/") ? shortPath(value) : brief(isKnown(Number(value)) && value !== "" ? num(Number(value)) : value, 24))), " "]), pairs.length > MAX_KEYS ? make("span", { class: "faint small", title: pairs.slice(MAX_KEYS).map(([key, value]) => key + " = " + value).join(", ").slice(0, 500) }, "+" + (pairs.length - MAX_KEYS)) : ""];
}

function allDifferences(standing) {
  return Object.entries(standing.differs).filter(([key]) => !OUTPUT.includes(key)).map(([key, value]) => brief(key, 60) + " = " + brief(value, 40)).join(", ");
}

function runRow(run, chosen, usual, columns) {
  const { name, standing } = run, { title, when } = titleOf(name), isBad = ENDED_BADLY.includes(standing.state), isChosen = chosen.includes(run), address = link("overview", { run: name });
  const names = chosen.map((each) => each.name).filter((each) => each !== name), [before, after] = ["before", "after"].map((which) => standing.intervals[which] || (isKnown(standing.heldout[which]) ? { value: standing.heldout[which] } : null));
  const last = standing.latest["success/rate"], alarms = standing.alarms.length ? plural(standing.alarms.length, "kind") + " of alarm" : "";
  const cells_ = {
    name: () => make("td", { class: "name" }, make("a", { class: "to", href: address, title: name }, make("b", {}, title)), make("small", {}, when, standing.tags.map((tag) => " " + tag).join(","), make("span", { class: "phone" + (isBad || alarms ? " crit" : "") }, " " + [standing.state, alarms].filter(Boolean).join(", ")))),
    state: () => make("td", { class: "desk" }, make("span", { class: "state" }, dotOf(standing.state), " ", make("span", { class: isBad ? "crit" : "quiet" }, standing.state)), alarms ? make("small", { class: "small crit" }, alarms) : "", standing.reason ? make("small", { class: "reason", title: brief(standing.reason, 600) }, brief(standing.reason, 120)) : "", standing.problems.length ? make("small", { class: "fault" }, plural(standing.problems.length, "damaged file")) : ""),
    differs: () => make("td", { class: "desk" }, differencesOf(standing, usual)),
    success: () => make("td", { class: "desk" }, standing.course.length ? spark(standing.course, { high: 28, y: [0, 1], label: "training success, last " + pct(last), span: courseSpan(standing) }) : ""),
    before: () => make("td", { class: "desk" }, before || after ? dumbbell(before, after) : ""),
    after: () => make("td", { class: "num" }, make("b", { title: String(after ? after.value : last) }, pct(after ? after.value : last)), after || isNone(last) ? "" : make("small", { class: "faint small" }, "training")),
    steps: () => make("td", { class: "num desk" }, RUN_COLUMNS.steps.of(run) + (standing.num_steps ? " of " + standing.num_steps : "")), seconds: () => make("td", { class: "num desk" }, seconds(standing.seconds)),
    recipe: () => make("td", { class: "desk", title: standing.recipe_file }, standing.recipe_file ? shortPath(standing.recipe_file) : "–"), tasks: () => make("td", { class: "num desk" }, whole(standing.num_tasks)), tokens: () => make("td", { class: "num desk" }, whole(standing.num_tokens)), episodes: () => make("td", { class: "num desk" }, whole(standing.num_episodes)),
    hours: () => make("td", { class: "num desk" }, isKnown(standing.device_hours) ? num(Number(standing.device_hours.toPrecision(2))) + " " + standing.device + " h" : "–"), tags: () => make("td", { class: "desk" }, standing.tags.map((tag) => [badge(tag), " "])),
  };
  return make("tr", { class: "go", "data-run": name, "data-key": "run " + name, onclick: (event) => { if (!event.target.closest("input, a, label")) location.hash = address; } },
    make("td", { class: "desk" }, make("input", { class: "check", id: "pick-" + name, type: "checkbox", checked: isChosen, "aria-label": "choose " + name, onchange: () => go({ runs: (isChosen ? names : [...names, name]).join(",") }) })),
    columns.map(([column]) => cells_[column]()), before || after ? make("td", { class: "phone wide" }, dumbbell(before, after, { wide: Math.max(200, document.documentElement.clientWidth - 32), high: 18 })) : "");
}

// The course has at most 40 points of the steps done; the picture spans the whole run.
function courseSpan({ course, last_step: last, num_steps: num_ }) {
  return num_ && last !== null && last + 1 < num_ ? Math.ceil(course.length * num_ / (last + 1)) : course.length;
}

function failedPart(failed, settings) {
  const fit = failed.filter((start) => isFound({ name: start.name || "", standing: { ...start, state: "failed at start" } }, settings.find || "")), shown = settings.rows === "all" ? fit : fit.slice(0, MAX_STARTS);
  if (!fit.length) return "";
  return part("Starts that failed", "their checks did not pass; no folder was made", shown.map((start, at) => make("div", { class: "notice", "data-failed": String(at), "data-key": "failed " + start.time + at }, make("div", {}, make("b", {}, brief(start.name || start.recipe_file || "recipe")), " ", make("span", { class: "faint small" }, (start.recipe_file ? shortPath(start.recipe_file) + " · " : "") + (start.time > 0 ? new Date(1000 * start.time).toISOString().slice(0, 16).replace("T", " ") + " UTC" : "")), make("p", { class: "reason quiet" }, brief(start.error, 600)), make("p", { class: "mono faint" }, brief(start.command))))),
    fit.length > shown.length ? make("p", {}, make("a", { class: "link", href: moved({ rows: "all" }) }, "show all " + fit.length)) : "");
}

function dock(chosen) {
  if (!chosen.length) return "";
  return make("div", { class: "dock", role: "status" }, make("span", {}, plural(chosen.length, "run") + " chosen"), make("a", { id: "compare", href: link("compare", { runs: place().settings.runs }) }, "Compare"), make("kbd", {}, "c"));
}
