// The tasks of a run's recipe: a list that can be searched, and one task with its demonstration.

import { ask } from "./api.js";
import { answer, brief, cells, longText, make, number, options, percent, plural, searchField, table, whole, words } from "./dom.js";
import { go, link, moved } from "./place.js";
import { later } from "./runs.js";
import { playedFor } from "./source.js";

const TASKS_PAGE = 50;
const TASK_FILTERS = ["text", "split", "family", "difficulty"];

export async function tasks([run], settings) {
  if (settings.id) return taskOf(run, settings);
  const asked = { run: run.name, offset: settings.offset, limit: TASKS_PAGE };
  for (const name of TASK_FILTERS) asked[name] = settings[name];
  const found = await ask("tasks", asked), explored_ = found.files.find((file) => file.exploration);
  const lead = found.files.map((file, i) => [i ? " · " : "", fileOf(file)]), made = explored_ && explored_.exploration;
  return make("div", { id: "tasks" }, answer(found.heading, { lead: make("span", { id: "task-files" }, lead, made ? [". ", make("a", { class: "link", id: "to-explored", href: link("explored", { name: run.name + " " + explored_.split, run: run.name }) }, "How they were explored"), ": " + made.num_tools_in_tasks + " of " + plural(made.num_tools, "tool") + " in tasks, " + whole(made.num_rejected) + " drafts rejected"] : "") }),
    found.files.length ? make("section", {}, taskFilters(settings, found.choices), taskPages(found, settings), found.total ? table(["split", "task", "question", "family", "difficulty", "tools", { words: "played", kind: "num" }, { words: "success", kind: "num" }], found.rows.map((row) => taskRow(row, run)), { id: "task-list", class: "rows" })
      : make("p", { id: "task-list", class: "quiet" }, "No task fits.")) : "");
}

function fileOf(file) {
  const bad = file.problem ? make("span", { class: "fault" }, file.problem) : [plural(file.num_tasks, "task"), file.num_bad ? make("span", { class: "fault" }, ", " + plural(file.num_bad, "row") + " are not valid tasks") : ""];
  return make("span", { class: "task-file", "data-split": file.split }, file.split + ": " + brief(file.name) + ", ", bad);
}

function taskRow(row, run) {
  const address = moved({ run: run.name, id: row.place, of: row.split });
  return make("tr", { class: "go", onclick: (event) => { if (!event.target.closest("a")) location.hash = address; } }, cells(
    row.split, make("a", { class: "to", href: address }, brief(row.id, 60)), row.question, words(row.family), row.difficulty, brief(row.tools.join(", "), 120),
    row.num_episodes ? make("a", { class: "link", href: moved({ run: run.name, task: row.id }, "trajectories") }, number(row.num_episodes)) : number(row.num_episodes), row.num_episodes ? percent(row.success) : ""));
}

function taskFilters(settings, choices) {
  const set = (name) => (event) => go({ [name]: event.target.value, offset: "" });
  const pick = (name) => make("label", {}, name + " ", make("select", { id: "filter-" + name, onchange: set(name) }, options([["", "any"], ...choices[name].filter((each) => each.value !== "").map((each) => [each.value, brief(each.value, 60) + " (" + each.num + ")"])], settings[name] || "")));
  return make("form", { class: "filters", onsubmit: (event) => event.preventDefault() }, searchField({ id: "filter-task", placeholder: "Find in questions and ids", "aria-label": "find tasks", value: settings.text || "", oninput: later((value) => go({ text: value, offset: "" })) }), pick("split"), pick("family"), pick("difficulty"),
    make("button", { type: "button", class: "pill", id: "clear", onclick: () => go(Object.fromEntries([...TASK_FILTERS, "offset"].map((name) => [name, ""]))) }, "clear"));
}

function taskPages(found, settings) {
  const offset = Number(settings.offset || 0);
  const turn = (to, said, id) => make("button", { type: "button", class: "pill", id, disabled: to < 0 || to >= found.total || to === offset, onclick: () => go({ offset: to || "" }) }, said);
  return make("p", { class: "pages" }, make("span", { id: "total" }, whole(found.total)), found.total === 1 ? " task " : " tasks ",
    found.total > TASKS_PAGE ? [turn(Math.max(offset - TASKS_PAGE, 0), "‹ previous", "previous"), " " + (offset + 1) + "–" + Math.min(offset + TASKS_PAGE, found.total) + " ", turn(offset + TASKS_PAGE, "next ›", "next")] : "");
}

async function taskOf(run, settings) {
  const found = await ask("task", { run: run.name, split: settings.of, place: settings.id }), question = [...found.prompt].reverse().find((message) => message.role === "user");
  const facts = [found.split, words(found.family), found.difficulty, found.servers.length ? "servers " + brief(found.servers.join(", ")) : "all servers"].filter(Boolean).join(" · ");
  return make("div", { id: "tasks" }, answer(brief(found.id), { eyebrow: [make("a", { id: "back", href: moved({ id: "", of: "" }) }, "Tasks"), " / " + facts], lead: question ? brief(question.content, 400) : "", tone: "of-episode" }),
    make("section", { class: "two" }, make("div", {}, found.prompt.map((message) => make("article", { class: "turn prompt" }, make("h3", {}, message.role), longText(message.content, "said"))), demonstrationOf(found)),
      make("aside", { class: "side" }, make("section", {}, make("h3", {}, "Truth"), longText(found.truth)), playedOf(found, run))));
}

// The turns that prove a task.
export function demonstrationOf(found) {
  return [found.demonstration.length ? make("h3", { class: "spaced" }, "Demonstration") : make("p", { class: "note" }, "The task has no demonstration."), found.demonstration.map(demonstrated), "num_calls" in found ? shownCalls(found) : ""];
}

function demonstrated(turn, place) {
  return make("article", { class: "turn" }, make("h3", {}, "turn " + (place + 1)), turn.user ? longText("user: " + turn.user) : "", turn.text ? longText(turn.text, "said") : "",
    turn.calls.map((call) => make("div", { class: "calling" }, make("div", { class: "give" }, make("b", {}, brief(call.name)), longText(call.arguments, "arguments")),
      make("div", { class: "get" }, call.result === null ? "The file does not hold the result." : longText(call.result, "result")))));
}

function shownCalls(found) {
  const shown = found.demonstration.reduce((sum, turn) => sum + turn.calls.length, 0);
  return shown < found.num_calls ? make("p", { class: "note" }, "The first " + shown + " of " + found.num_calls + " calls are shown.") : "";
}

function playedOf(found, run) {
  if (!found.played.length) return make("section", { class: "note", id: "played" }, "No episode of this task is stored.");
  const rows = found.played.map((each) => make("tr", {}, cells(make("a", { class: "link", href: moved({ run: run.name, id: each.id }, "trajectory") }, playedFor(each.source, each.step)), number(each.reward), percent(each.success), number(each.num))));
  return make("section", { id: "played" }, make("h3", {}, "Episodes"), table(["played for", "reward", "success", "episodes"], rows));
}
