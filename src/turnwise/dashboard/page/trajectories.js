// The list of episodes, searched, filtered and paged.

import { ask } from "./api.js";
import { badge, brief, cells, isFinished, make, number, seconds, table, toneOf } from "./dom.js";
import { COLUMNS, inOrder, orders, sortHeads } from "./columns.js";
import { hold } from "./hold.js";
import { go, moved, rememberList } from "./place.js";
import { recorded } from "./recorded.js";
import { excerptOf, isSearching, searchNote } from "./search.js";
import { nameOf, playedFor } from "./source.js";

const PAGE = 50, SEARCH_AGAIN_MS = 1000;
const FOUND_COLUMN = { head: "found" }; // instead of the question, where episodes are searched for
const FILTERS = ["source", "task", "family", "difficulty", "low", "high", "success", "stop", "fault", "tool", "error", "check", "search", "sort"];

export async function trajectories(runs, settings) {
  rememberList();
  const run = runs.find((each) => each.name === settings.run) || runs[0];
  const asked = { run: run.name, first: settings.first, last: settings.last, offset: settings.offset, limit: PAGE };
  for (const name of FILTERS) asked[name] = settings[name];
  const [found, choices] = await Promise.all([listed(asked), ask("choices", { run: run.name })]);
  const results = make("div", {}, listResults(found, settings, run));
  const section = make("section", {}, make("h2", {}, "Trajectories"), filters(runs, run, settings, choices), results);
  if (isSearching(found.search)) setTimeout(() => searchOn(results, asked, settings, run), SEARCH_AGAIN_MS);
  if (found.num_left_out) section.append(make("p", { class: "note", id: "left-out" }, "This file holds " + (choices.num_episodes - found.num_left_out).toLocaleString("en-US") + " of the run's " + choices.num_episodes.toLocaleString("en-US") + " episodes: failures of evaluations first, then the last steps."));
  if (choices.num_bad_lines) section.append(make("p", { class: "note" }, choices.num_bad_lines + " lines of the run's files could not be read and are left out."));
  return section;
}

function listResults(found, settings, run) {
  const columns = COLUMNS.map((column) => found.search && column.key === "question" ? FOUND_COLUMN : column);
  return [pages(found, settings), searchNote(found.search), found.total ? sortHeads(table(columns.map((column) => column.head), found.rows.map((row) => rowOf(row, run, found.search)), { id: "list", class: "rows" }), columns, settings.sort)
    : make("p", { id: "list" }, "No episode fits.")];
}

// While episodes are being made searchable, the results follow, also while the search is being typed.
async function searchOn(results, asked, settings, run) {
  if (!results.isConnected) return;
  const found = await listed(asked).catch(() => null);
  if (!results.isConnected) return;
  if (found) {
    const giveBack = hold(true);
    results.replaceChildren(...make("div", {}, listResults(found, settings, run)).childNodes);
    giveBack();
  }
  if (!found || isSearching(found.search)) setTimeout(() => searchOn(results, asked, settings, run), SEARCH_AGAIN_MS);
}

// In an exported file the page puts the rows in order itself.
async function listed(asked) {
  if (!recorded()) return ask("trajectories", asked);
  const found = await ask("trajectories", { ...asked, sort: "", offset: 0, limit: Number.MAX_SAFE_INTEGER });
  const start = Number(asked.offset || 0);
  return { ...found, rows: inOrder(found.rows, asked.sort).slice(start, start + PAGE) };
}

function rowOf(row, run, search) {
  const address = moved({ run: run.name, id: row.id }, "trajectory");
  return make("tr", { onclick: (event) => { if (event.target.tagName !== "A") location.hash = address; } }, cells(
    playedFor(row.source, row.step), make("a", { href: address }, brief(row.task)),
    search && row.excerpt ? excerptOf(row.excerpt, run.name, row.id) : words(row.question), words(row.answer), words(row.expected), failedOf(row), brief(row.family),
    make("span", { class: toneOf(row.is_success) }, number(row.reward)),
    isFinished(row.stop) ? row.stop : badge(row.stop, "warn"), row.fault === "none" ? "" : badge(row.fault, "bad"),
    number(row.num_turns), number(row.num_calls), number(row.num_tokens), seconds(row.seconds)));
}

// The first failed check; of a conversation, also which of its messages succeeded.
function failedOf(row) {
  const check = row.failed_check ? badge(row.failed_check, "bad") : "";
  return row.messages ? [make("span", { class: "messages", title: "messages of the conversation" }, [...row.messages].map((mark, place) => [make("span", { class: toneOf(mark === "1") }, (place + 1) + (mark === "1" ? "✓" : "✗")), " "])), check] : check;
}

function words(text) {
  return text ? make("span", { class: "words" }, text) : "";
}

function filters(runs, run, settings, choices) {
  const set = (name) => (event) => go({ [name]: event.target.value, offset: "" });
  const pick = (name, label, options) => make("label", {}, label + " ", make("select", { id: "filter-" + name, onchange: set(name) },
    make("option", { value: "" }, name === "error" ? "–" : "any"), options.map(([value, words]) => make("option", { value, selected: settings[name] === value }, words))));
  const counted = (list) => list.filter((each) => each.value !== "").map((each) => [each.value, brief(each.value, 60) + " (" + each.num + ")"]);
  const sources = choices.source.map((each) => [each.value, nameOf(each.value) + " (" + each.num + ")"]);
  const field = (name, label, type) => make("label", {}, label + " ", make("input", { id: "filter-" + name, type, step: "any", value: settings[name] || "", onchange: set(name) }));
  return make("form", { class: "settings", onsubmit: (event) => event.preventDefault() },
    make("label", {}, "search ", make("input", { id: "filter-search", type: "search", value: settings.search || "", placeholder: 'words or "a phrase"', title: "in questions, answers, texts, calls and tool results (key: /)", onchange: set("search") })),
    pick("source", "played for", sources), field("first", "step from", "number"), field("last", "to", "number"),
    field("task", "task has", "search"), pick("family", "family", counted(choices.family)), pick("difficulty", "difficulty", counted(choices.difficulty)),
    field("low", "reward from", "number"), field("high", "to", "number"), pick("success", "success", [["1", "yes"], ["0", "no"]]),
    pick("stop", "stop", counted(choices.stop)), pick("fault", "fault", counted(choices.fault)), pick("tool", "tool", counted(choices.tool)),
    pick("error", "tool error", [["any", "of any class"], ...counted(choices.error).map(([value, words]) => [value, words.replaceAll("_", " ")])]), pick("check", "failed check", counted(choices.failed_check)),
    make("label", {}, "order ", make("select", { id: "filter-sort", onchange: set("sort") }, orders().map(([value, words]) => make("option", { value, selected: (settings.sort || "newest") === value }, words)))),
    make("button", { type: "button", id: "clear", onclick: () => go(Object.fromEntries([...FILTERS, "first", "last", "offset"].map((name) => [name, ""]))) }, "clear"));
}

function pages(found, settings) {
  const offset = Number(settings.offset || 0);
  const turn = (to, words, id) => make("button", { type: "button", id, disabled: to < 0 || to >= found.total || to === offset, onclick: () => go({ offset: to || "" }) }, words);
  return make("p", { class: "pages" }, make("span", { id: "total" }, number(found.total)), found.total === 1 ? " episode " : " episodes ",
    found.total > PAGE ? [turn(Math.max(offset - PAGE, 0), "‹ previous", "previous"), " " + (offset + 1) + "–" + Math.min(offset + PAGE, found.total) + " ", turn(offset + PAGE, "next ›", "next")] : "");
}
