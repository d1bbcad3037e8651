// The runs as a table that is searched and sorts by each column, and starts that left no run.

import { ask } from "./api.js";
import { saveCsv } from "./csv.js";
import { badge, brief, cells, figure, make, number, percent, seconds, table } from "./dom.js";
import { go, moved } from "./place.js";
import { recorded } from "./recorded.js";
import { amongChosen } from "./run_differences.js";

const TONES = { crashed: "bad", died: "bad", halted: "bad", damaged: "bad", stopped: "warn", unknown: "warn", running: "good", finished: "plain", "failed at start": "bad" };
const MAX_KEYS = 6;
const MAX_ROWS = 100; // drawn at once; all of them when asked for
const MAX_CHOSEN = 24; // at once; more lines than these cannot be told apart
const MAX_FAILED = 20; // the newest failed starts

// By name in the address: the head, and what a run is ordered by. Runs without a value come last in both directions.
const RUN_COLUMNS = {
  name: { head: "run", of: (run) => run.name },
  recipe: { head: "recipe", of: ({ standing }) => standing.recipe_file || null },
  state: { head: "state", of: ({ standing }) => standing.state },
  steps: { head: "steps", of: ({ standing }) => stepsOf(standing) },
  success: { head: "training success", of: ({ standing }) => standing.latest["success/rate"] },
  before: { head: "held-out before", of: ({ standing }) => standing.heldout.before },
  after: { head: "held-out after", of: ({ standing }) => standing.heldout.after },
  tasks: { head: "held-out tasks", of: ({ standing }) => standing.num_tasks },
  seconds: { head: "took", of: ({ standing }) => standing.seconds },
  tokens: { head: "sampled tokens", of: ({ standing }) => standing.num_tokens },
  episodes: { head: "episodes", of: ({ standing }) => standing.num_episodes },
  hours: { head: "device hours", of: ({ standing }) => standing.device_hours },
  tags: { head: "tags", of: ({ standing }) => standing.tags.join(" ") || null },
  differs: { head: "recipe differs in", of: ({ standing }) => differencesOf(standing) || null },
};

export async function runTable(chosen, settings, runs) {
  const sort = Object.hasOwn(RUN_COLUMNS, String(settings.sort).replace(/^-/, "")) ? settings.sort : "name";
  const failed = (await ask("failed_starts")).map(failedStart), isAll = settings.rows === "all";
  const fitting = [...runs, ...(isAll ? failed : failed.slice(0, MAX_FAILED))].filter((run) => isFound(run, settings.find || ""));
  const listed = ordered(fitting, sort), rows = listed.slice(0, isAll ? listed.length : MAX_ROWS).map((run) => runRow(run, chosen));
  const found = table(["", ...Object.values(RUN_COLUMNS).map(({ head }) => head)], rows, { id: "run-table" });
  Object.entries(RUN_COLUMNS).forEach(([name, column], place) => found.querySelectorAll("th")[place + 1].replaceWith(headOf(name, column, sort)));
  const isCut = rows.length < listed.length || (!isAll && failed.length > MAX_FAILED);
  return make("section", {}, make("h2", {}, "Runs"), await amongChosen(chosen, settings), searching(sort, settings, listed),
    make("p", { class: "note" }, "Success is that of the last training step; held-out success is measured before and after training, on as many tasks as stated. Device hours: the time taken × the number of GPUs, or of processes on CPUs. Tokens and episodes are those of training.",
      recorded() ? " Starts that failed are not part of this file." : ""),
    rows.length ? found : make("p", { id: "run-table" }, "No run fits."),
    isCut ? make("p", {}, make("a", { id: "all-rows", href: moved({ rows: "all" }) }, "show all " + figure(runs.length) + " runs" + (failed.length ? " and " + figure(failed.length) + " failed starts" : ""))) : "");
}

// A start that left no run, as a row among the runs.
function failedStart({ time, recipe_file: recipeFile, name, command, error }, place) {
  const standing = { state: "failed at start", reason: error, recipe_file: recipeFile, last_step: null, latest: {}, heldout: {}, problems: [], tags: [], differs: {} };
  return { name, standing, key: "failed-" + place, when: new Date(1000 * time), command };
}

// Every word occurs in the run's name, recipe, state or tags.
function isFound({ name, standing }, words) {
  const text = [name, standing.recipe_file, standing.state, ...standing.tags].join(" ").toLowerCase();
  return words.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}

function ordered(runs, sort) {
  const sign = sort.startsWith("-") ? -1 : 1, { of } = RUN_COLUMNS[sort.replace(/^-/, "")];
  const keyed = runs.map((run) => [of(run), run]);
  const isNone = (value) => value === null || value === undefined;
  keyed.sort(([one], [other]) => {
    if (isNone(one) || isNone(other)) return isNone(one) - isNone(other);
    return sign * (typeof one === "string" ? collator.compare(one, other) : one - other);
  });
  return keyed.map(([, run]) => run);
}

const collator = new Intl.Collator("en", { numeric: true });

function headOf(name, { head }, sort) {
  const isUp = sort === name, isDown = sort === "-" + name;
  return make("th", { scope: "col", "aria-sort": isUp ? "ascending" : isDown ? "descending" : "none" },
    make("button", { type: "button", class: "toggle", id: "sort-" + name, onclick: () => go({ sort: isUp ? "-" + name : name }) }, head, isUp ? " ▲" : isDown ? " ▼" : ""));
}

// The heads are not shown on a narrow screen; the order is.
function searching(sort, settings, listed) {
  const options = Object.entries(RUN_COLUMNS).flatMap(([name, { head }]) => [[name, head + " ▲"], ["-" + name, head + " ▼"]]);
  const heads = Object.values(RUN_COLUMNS), valuesOf = (run) => heads.map(({ of }) => of(run));
  return make("p", { class: "settings" }, make("label", {}, "find ", make("input", { id: "find", type: "search", placeholder: "name, tag, recipe or state", value: settings.find || "", onchange: (event) => go({ find: event.target.value }) })), chooseAll(listed),
    make("button", { type: "button", id: "csv-runs", title: "save these rows as CSV", onclick: () => saveCsv("runs", [...heads.map(({ head }) => head), "reason"], listed.map((run) => [...valuesOf(run), run.standing.reason || ""])) }, "CSV"),
    make("label", {}, "order by ", make("select", { id: "sort", onchange: (event) => go({ sort: event.target.value }) },
    options.map(([value, words]) => make("option", { value, selected: value === sort }, words)))));
}

// The runs that fit what is searched for, chosen at once; failed starts cannot be.
function chooseAll(listed) {
  const names = listed.filter((run) => !run.when).map((run) => run.name);
  if (names.length < 2 || names.length > MAX_CHOSEN) return "";
  return make("a", { id: "choose-all", href: moved({ runs: names.join(","), run: "" }) }, "choose all " + figure(names.length));
}

function runRow(run, chosen) {
  if (run.when) return failedRow(run);
  const { name, standing } = run, isChosen = chosen.includes(run);
  const names = () => chosen.map((each) => each.name).filter((each) => each !== name);
  const pick = make("input", { id: "pick-" + name, type: "checkbox", checked: isChosen, "aria-label": "choose " + name,
    onchange: () => go({ runs: (isChosen ? names() : [...names(), name]).join(","), run: "" }) });
  return make("tr", { "data-run": name }, cells(pick, make("a", { href: moved({ runs: name, run: "" }, "overview") }, brief(name)), brief(standing.recipe_file || "–"), stateOf(standing),
    make("span", { class: "number" }, number(stepsOf(standing)), standing.num_steps ? [" of ", number(standing.num_steps)] : ""), percent(standing.latest["success/rate"]),
    percent(standing.heldout.before), percent(standing.heldout.after), number(standing.num_tasks), seconds(standing.seconds),
    number(whole(standing.num_tokens)), number(whole(standing.num_episodes)), hoursOf(standing), standing.tags.map((tag) => [badge(tag, "plain"), " "]), differencesOf(standing)));
}

function failedRow({ name, standing, when, command, key }) {
  const time = when.getTime() > 0 ? when.toISOString().slice(0, 16).replace("T", " ") + " UTC" : "";
  return make("tr", { "data-failed": key }, cells("", [brief(name), " ", make("small", {}, time)], brief(standing.recipe_file || "–"), [stateOf(standing), make("p", { class: "note" }, brief(command))], ...Object.keys(RUN_COLUMNS).slice(3).map(() => "")));
}

function whole(value) {
  return value === null || value === undefined ? null : Math.round(value);
}

function hoursOf({ device_hours: hours, device }) {
  return hours === null ? "–" : make("span", { class: "number", title: hours + " hours" }, figure(hours < 0.01 ? Number(hours.toPrecision(1)) : Number(hours.toFixed(2))) + " " + device + " h");
}

function stepsOf({ last_step: last }) {
  return last === null ? 0 : last + 1;
}

// A run that ended early says why in its row, also one of which nothing else came.
function stateOf({ state, reason, problems }) {
  return [badge(state, TONES[state] || "plain"), reason ? [" ", make("span", { class: "reason" }, brief(reason))] : "",
    problems.length ? make("p", { class: "note" }, number(problems.length), " damaged files") : ""];
}

function differencesOf({ differs }) {
  const pairs = Object.entries(differs || {}).filter(([key]) => !["run.name", "run.tags"].includes(key)).map(([key, value]) => brief(key, 60) + " = " + brief(value, 40));
  return pairs.slice(0, MAX_KEYS).join(", ") + (pairs.length > MAX_KEYS ? ", and " + (pairs.length - MAX_KEYS) + " more" : "");
}
