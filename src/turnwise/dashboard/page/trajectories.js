// The list of episodes, filtered and paged.

import { ask } from "./api.js";
import { badge, brief, cells, isFinished, make, number, seconds, table, toneOf } from "./dom.js";
import { COLUMNS, inOrder, orders, sortHeads } from "./columns.js";
import { go, moved, rememberList } from "./place.js";
import { recorded } from "./recorded.js";
import { nameOf, playedFor } from "./source.js";

const PAGE = 50;
const FILTERS = ["source", "task", "family", "difficulty", "low", "high", "success", "stop", "fault", "tool", "sort"];

export async function trajectories(runs, settings) {
  rememberList();
  const run = runs.find((each) => each.name === settings.run) || runs[0];
  const asked = { run: run.name, first: settings.first, last: settings.last, offset: settings.offset, limit: PAGE };
  for (const name of FILTERS) asked[name] = settings[name];
  const [found, choices] = await Promise.all([listed(asked), ask("choices", { run: run.name })]);
  const section = make("section", {}, make("h2", {}, "Trajectories"), filters(runs, run, settings, choices), pages(found, settings));
  section.append(found.total ? sortHeads(table(COLUMNS.map((column) => column.head), found.rows.map((row) => rowOf(row, run)), { id: "list", class: "rows" }), settings.sort)
    : make("p", { id: "list" }, "No episode fits."));
  if (found.num_left_out) section.append(make("p", { class: "note", id: "left-out" }, "This file holds " + (choices.num_episodes - found.num_left_out).toLocaleString("en-US") + " of the run's " + choices.num_episodes.toLocaleString("en-US") + " episodes: failures of evaluations first, then the last steps."));
  if (choices.num_bad_lines) section.append(make("p", { class: "note" }, choices.num_bad_lines + " lines of the run's files could not be read and are left out."));
  return section;
}

// In an exported file the page puts the rows in order itself.
async function listed(asked) {
  if (!recorded()) return ask("trajectories", asked);
  const found = await ask("trajectories", { ...asked, sort: "", offset: 0, limit: Number.MAX_SAFE_INTEGER });
  const start = Number(asked.offset || 0);
  return { ...found, rows: inOrder(found.rows, asked.sort).slice(start, start + PAGE) };
}

function rowOf(row, run) {
  const address = moved({ run: run.name, id: row.id }, "trajectory");
  return make("tr", { onclick: (event) => { if (event.target.tagName !== "A") location.hash = address; } }, cells(
    playedFor(row.source, row.step), make("a", { href: address }, brief(row.task)),
    words(row.question), words(row.answer), words(row.expected), row.failed_check ? badge(row.failed_check, "bad") : "", brief(row.family),
    make("span", { class: toneOf(row.is_success) }, number(row.reward)),
    isFinished(row.stop) ? row.stop : badge(row.stop, "warn"), row.fault === "none" ? "" : badge(row.fault, "bad"),
    number(row.num_turns), number(row.num_calls), number(row.num_tokens), seconds(row.seconds)));
}

function words(text) {
  return text ? make("span", { class: "words" }, text) : "";
}

function filters(runs, run, settings, choices) {
  const set = (name) => (event) => go({ [name]: event.target.value, offset: "" });
  const pick = (name, label, options) => make("label", {}, label + " ", make("select", { id: "filter-" + name, onchange: set(name) },
    make("option", { value: "" }, "any"), options.map(([value, words]) => make("option", { value, selected: settings[name] === value }, words))));
  const counted = (list) => list.filter((each) => each.value !== "").map((each) => [each.value, brief(each.value, 60) + " (" + each.num + ")"]);
  const sources = choices.source.map((each) => [each.value, nameOf(each.value) + " (" + each.num + ")"]);
  const field = (name, label, type) => make("label", {}, label + " ", make("input", { id: "filter-" + name, type, step: "any", value: settings[name] || "", onchange: set(name) }));
  return make("form", { class: "settings", onsubmit: (event) => event.preventDefault() },
    pick("source", "played for", sources), field("first", "step from", "number"), field("last", "to", "number"),
    field("task", "task has", "search"), pick("family", "family", counted(choices.family)), pick("difficulty", "difficulty", counted(choices.difficulty)),
    field("low", "reward from", "number"), field("high", "to", "number"), pick("success", "success", [["1", "yes"], ["0", "no"]]),
    pick("stop", "stop", counted(choices.stop)), pick("fault", "fault", counted(choices.fault)), pick("tool", "tool", counted(choices.tool)),
    make("label", {}, "order ", make("select", { id: "filter-sort", onchange: set("sort") }, orders().map(([value, words]) => make("option", { value, selected: (settings.sort || "newest") === value }, words)))),
    make("button", { type: "button", id: "clear", onclick: () => go(Object.fromEntries([...FILTERS, "first", "last", "offset"].map((name) => [name, ""]))) }, "clear"));
}

function pages(found, settings) {
  const offset = Number(settings.offset || 0);
  const turn = (to, words, id) => make("button", { type: "button", id, disabled: to < 0 || to >= found.total || to === offset, onclick: () => go({ offset: to || "" }) }, words);
  return make("p", { class: "pages" }, make("span", { id: "total" }, number(found.total)), found.total === 1 ? " episode " : " episodes ",
    found.total > PAGE ? [turn(Math.max(offset - PAGE, 0), "‹ previous", "previous"), " " + (offset + 1) + "–" + Math.min(offset + PAGE, found.total) + " ", turn(offset + PAGE, "next ›", "next")] : "");
}
