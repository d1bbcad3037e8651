// The runs as a table that sorts by each column, and what differs between two of them.

import { ask } from "./api.js";
import { badge, brief, cells, figure, make, number, percent, seconds, table } from "./dom.js";
import { go, moved } from "./place.js";

const TONES = { crashed: "bad", died: "bad", halted: "bad", damaged: "bad", stopped: "warn", unknown: "warn", running: "good", finished: "plain" };
const MAX_KEYS = 6;
const MAX_ROWS = 100; // drawn at once; all of them when asked for

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
  differs: { head: "recipe differs in", of: ({ standing }) => differencesOf(standing) || null },
};

export async function runTable(chosen, settings, runs) {
  const sort = Object.hasOwn(RUN_COLUMNS, String(settings.sort).replace(/^-/, "")) ? settings.sort : "name";
  const rows = ordered(runs, sort).slice(0, settings.rows === "all" ? runs.length : MAX_ROWS).map((run) => runRow(run, chosen));
  const found = table(["", ...Object.values(RUN_COLUMNS).map(({ head }) => head)], rows, { id: "run-table" });
  Object.entries(RUN_COLUMNS).forEach(([name, column], place) => found.querySelectorAll("th")[place + 1].replaceWith(headOf(name, column, sort)));
  const more = rows.length < runs.length ? make("p", {}, make("a", { id: "all-rows", href: moved({ rows: "all" }) }, "show all " + figure(runs.length) + " runs")) : "";
  return make("section", {}, make("h2", {}, "Runs"), await betweenTwo(chosen), sorting(sort),
    make("p", { class: "note" }, "Success is that of the last training step; held-out success is measured before and after training, on as many tasks as stated."),
    found, more);
}

// Of two chosen runs: what differs between their recipes, and whose model succeeds more often on the held-out tasks.
async function betweenTwo(chosen) {
  if (chosen.length !== 2) return make("p", { class: "note" }, "Choose two runs to compare their recipes and their held-out success.");
  const [one, other] = chosen;
  const found = await ask("paired", { run: one.name, other: other.name }).catch((error) => ({ error: error.message }));
  return make("div", { id: "between" }, recipesOf(one, other), make("h3", {}, "Held-out success after training: " + brief(other.name) + " − " + brief(one.name)), pairedOf(found));
}

function recipesOf(one, other) {
  const [left, right] = [one, other].map(({ standing }) => standing.differs || {});
  const keys = [...new Set([...Object.keys(left), ...Object.keys(right)])].filter((key) => left[key] !== right[key]).sort();
  const valueOf = (values, key) => Object.hasOwn(values, key) ? values[key] : make("span", { class: "note" }, "not there");
  const rows = keys.map((key) => make("tr", { "data-key": key }, cells(key, valueOf(left, key), valueOf(right, key))));
  return make("div", {}, make("h3", {}, "Where the recipes differ"),
    rows.length ? table(["key", brief(one.name), brief(other.name)], rows, { id: "recipes" }) : make("p", { id: "recipes" }, "The two recipes are the same."));
}

function pairedOf(found) {
  if (found.error) return make("p", { id: "paired" }, "No comparison: " + found.error);
  if (!found.all) return make("p", { id: "paired" }, "No comparison: the two evaluations have no task in common.");
  const row = (name, each) => make("tr", { "data-label": brief(name) }, cells(brief(name), percent(each.value), each.low === null ? "–" : [percent(each.low), " to ", percent(each.high)], number(each.num_tasks)));
  return make("div", { id: "paired" }, table(["", "difference", "95%", "tasks"], [row("all", found.all), ...Object.entries(found.families).map(([name, each]) => row(name, each))]),
    make("p", { class: "note" }, "Task by task, over tasks with the same id in both runs", found.num_left_out ? [" (", number(found.num_left_out), " tasks are in one only)"] : "",
      ". If the interval does not contain 0, the difference is more than chance. It does not cover how much training itself varies from seed to seed."));
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

// The heads are not shown on a narrow screen; this is.
function sorting(sort) {
  const options = Object.entries(RUN_COLUMNS).flatMap(([name, { head }]) => [[name, head + " ▲"], ["-" + name, head + " ▼"]]);
  return make("p", { class: "settings" }, make("label", {}, "order by ", make("select", { id: "sort", onchange: (event) => go({ sort: event.target.value }) },
    options.map(([value, words]) => make("option", { value, selected: value === sort }, words)))));
}

function runRow(run, chosen) {
  const { name, standing } = run, isChosen = chosen.includes(run);
  const names = () => chosen.map((each) => each.name).filter((each) => each !== name);
  const pick = make("input", { id: "pick-" + name, type: "checkbox", checked: isChosen, "aria-label": "choose " + name,
    onchange: () => go({ runs: (isChosen ? names() : [...names(), name]).join(","), run: "" }) });
  return make("tr", { "data-run": name }, cells(pick, make("a", { href: moved({ runs: name, run: "" }, "overview") }, brief(name)), brief(standing.recipe_file || "–"), stateOf(standing),
    make("span", { class: "number" }, number(stepsOf(standing)), standing.num_steps ? [" of ", number(standing.num_steps)] : ""), percent(standing.latest["success/rate"]),
    percent(standing.heldout.before), percent(standing.heldout.after), number(standing.num_tasks), seconds(standing.seconds), differencesOf(standing)));
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
  const pairs = Object.entries(differs || {}).map(([key, value]) => brief(key, 60) + " = " + brief(value, 40));
  return pairs.slice(0, MAX_KEYS).join(", ") + (pairs.length > MAX_KEYS ? ", and " + (pairs.length - MAX_KEYS) + " more" : "");
}
