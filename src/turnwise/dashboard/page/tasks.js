// The tasks of a run's recipe: a list that can be searched, and one task with its demonstration.

import { ask } from "./api.js";
import { brief, cells, figure, longText, make, number, percent, seconds, table } from "./dom.js";
import { explorationOf } from "./exploration.js";
import { go, moved } from "./place.js";
import { playedFor } from "./source.js";

const TASKS_PAGE = 50;
const TASK_FILTERS = ["text", "split", "family", "difficulty"];

export async function tasks(runs, settings) {
  const run = runs.find((each) => each.name === settings.run) || runs[0];
  if (settings.id) return taskOf(run, settings);
  const asked = { run: run.name, offset: settings.offset, limit: TASKS_PAGE };
  for (const name of TASK_FILTERS) asked[name] = settings[name];
  const found = await ask("tasks", asked);
  const section = make("section", { id: "tasks" }, make("h2", {}, "Tasks"));
  if (!found.files.length) return section.append(make("p", {}, "The run's recipe names no task file.")), section;
  const explored = found.files.find((file) => file.exploration);
  section.append(make("ul", { class: "note", id: "task-files" }, found.files.map((file) => fileOf(file, run))), explored ? explorationOf(await ask("exploration", { run: run.name, split: explored.split })) : "", taskFilters(runs, run, settings, found.choices), taskPages(found, settings));
  section.append(found.total ? table(["split", "task", "question", "family", "difficulty", "tools", "played", "success"], found.rows.map((row) => taskRow(row, run)), { id: "task-list", class: "rows" })
    : make("p", { id: "task-list" }, "No task fits."));
  return section;
}

function fileOf(file, run) {
  const words = file.problem ? make("span", { class: "bad" }, file.problem) : [number(file.num_tasks), file.num_tasks === 1 ? " task" : " tasks",
    file.num_bad ? make("span", { class: "bad" }, ", " + figure(file.num_bad) + " rows are not valid tasks") : ""];
  const made = file.exploration;
  return make("li", {}, file.split + ": " + brief(file.name) + ": ", words,
    made ? [" · explored in ", seconds(made.seconds), ": " + figure(made.num_reached) + " of " + figure(made.num_tools) + " tools reached, " + figure(made.num_tasks) + " tasks accepted, " + figure(made.num_rejected) + " drafts rejected"] : "",
    file.has_report ? [" · ", make("a", { href: "report?" + new URLSearchParams({ run: run.name, split: file.split }), target: "_blank", rel: "noopener" }, "report of the exploration")] : "");
}

function taskRow(row, run) {
  const address = moved({ run: run.name, id: row.place, of: row.split });
  return make("tr", { onclick: (event) => { if (event.target.tagName !== "A") location.hash = address; } }, cells(
    row.split, make("a", { href: address }, brief(row.id, 60)), row.question, brief(row.family, 60), row.difficulty, brief(row.tools.join(", "), 120),
    number(row.num_episodes), row.num_episodes ? percent(row.success) : ""));
}

function taskFilters(runs, run, settings, choices) {
  const set = (name) => (event) => go({ [name]: event.target.value, offset: "" });
  const pick = (name) => make("label", {}, name + " ", make("select", { id: "filter-" + name, onchange: set(name) }, make("option", { value: "" }, "any"),
    choices[name].filter((each) => each.value !== "").map((each) => make("option", { value: each.value, selected: settings[name] === each.value }, brief(each.value, 60) + " (" + each.num + ")"))));
  return make("form", { class: "settings", onsubmit: (event) => event.preventDefault() },
    make("label", {}, "question or id has ", make("input", { id: "filter-task", type: "search", value: settings.text || "", onchange: set("text") })),
    pick("split"), pick("family"), pick("difficulty"),
    make("button", { type: "button", id: "clear", onclick: () => go(Object.fromEntries([...TASK_FILTERS, "offset"].map((name) => [name, ""]))) }, "clear"));
}

function taskPages(found, settings) {
  const offset = Number(settings.offset || 0);
  const turn = (to, words, id) => make("button", { type: "button", id, disabled: to < 0 || to >= found.total || to === offset, onclick: () => go({ offset: to || "" }) }, words);
  return make("p", { class: "pages" }, make("span", { id: "total" }, number(found.total)), found.total === 1 ? " task " : " tasks ",
    found.total > TASKS_PAGE ? [turn(Math.max(offset - TASKS_PAGE, 0), "‹ previous", "previous"), " " + (offset + 1) + "–" + Math.min(offset + TASKS_PAGE, found.total) + " ", turn(offset + TASKS_PAGE, "next ›", "next")] : "");
}

async function taskOf(run, settings) {
  const found = await ask("task", { run: run.name, split: settings.of, place: settings.id });
  const facts = [found.split, brief(found.family), found.difficulty, found.servers.length ? "servers " + brief(found.servers.join(", ")) : "all servers"].filter(Boolean).join(" · ");
  return make("section", { id: "tasks" }, make("p", { class: "note" }, make("a", { id: "back", href: moved({ id: "", of: "" }) }, "‹ back to the list"), " (Escape)"),
    make("h2", {}, brief(found.id)), make("p", {}, facts), make("div", { class: "columns" },
      make("div", {}, found.prompt.map((message) => make("article", { class: "turn prompt" }, make("h3", {}, message.role), longText(message.content))),
        found.demonstration.length ? make("h3", {}, "Demonstration") : make("p", { class: "note" }, "The task has no demonstration."),
        found.demonstration.map(demonstrated), shownCalls(found)),
      make("aside", {}, make("div", {}, make("h3", {}, "Truth"), longText(found.truth)), playedOf(found, run))));
}

function demonstrated(turn, place) {
  return make("article", { class: "turn" }, make("h3", {}, "turn " + (place + 1)), turn.user ? longText("user: " + turn.user) : "", turn.text ? longText(turn.text, "said") : "",
    turn.calls.map((call) => make("div", { class: "calling" }, make("p", { class: "call" }, make("b", {}, brief(call.name))), longText(call.arguments, "arguments"),
      call.result === null ? make("p", { class: "note" }, "The file does not hold the result.") : longText(call.result, "result"))));
}

function shownCalls(found) {
  const shown = found.demonstration.reduce((sum, turn) => sum + turn.calls.length, 0);
  return shown < found.num_calls ? make("p", { class: "note" }, "The first " + figure(shown) + " of " + figure(found.num_calls) + " calls are shown.") : "";
}

function playedOf(found, run) {
  if (!found.played.length) return make("p", { class: "note", id: "played" }, "No episode of this task is stored.");
  const rows = found.played.map((each) => make("tr", {}, cells(make("a", { href: moved({ run: run.name, id: each.id }, "trajectory") }, playedFor(each.source, each.step)), number(each.reward), percent(each.success), number(each.num))));
  return make("div", { id: "played" }, make("h3", {}, "Episodes"), table(["played for", "reward", "success", "episodes"], rows));
}
