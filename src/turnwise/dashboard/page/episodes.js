// Episodes by group, which is what training learns from: a row is a group, its marks are the tries. Or try by try.

import { ask } from "./api.js";
import { sized, winLoss } from "./charts.js";
import { COLUMNS, inOrder, orders } from "./columns.js";
import { answer, badge, brief, choice, draw, isFinished, make, num, number, options, plural, searchField, seconds, table, toneOf, whole, words } from "./dom.js";
import { growth } from "./live.js";
import { go, moved, place, rememberList } from "./place.js";
import { recorded } from "./recorded.js";
import { later } from "./runs.js";
import { excerptOf, isSearching, searchNote } from "./search.js";
import { nameOf, playedFor } from "./source.js";

const PAGE = 50, SEARCH_AGAIN_MS = 1000;
const FILTERS = ["source", "first", "last", "task", "family", "difficulty", "low", "high", "success", "stop", "fault", "tool", "error", "check", "search", "kind", "sort"];
const FAULTS = { format: "turn not readable", model: "call failed, the model's fault", infra: "infrastructure", reward: "not judged" };
let shownChanges = null;

export async function episodes([run], settings) {
  rememberList();
  const asked = { run: run.name, offset: settings.offset, limit: PAGE };
  for (const name of FILTERS) asked[name] = settings[name];
  const isTries = settings.list === "tries" || Boolean(settings.search), [found, choices, kinds] = await Promise.all([isTries ? listedTries(asked) : ask("groups", asked), ask("choices", { run: run.name }), ask("kinds", { run: run.name })]);
  const numNew = growth.is && shownChanges !== null ? choices.num_episodes - shownChanges : 0;
  if (!growth.is) shownChanges = choices.num_episodes;
  if (numNew > 0) return withNotice(numNew); // rows stay where they are until the reader asks for the new ones
  const results = make("div", { id: "results" }, resultsOf(found, settings, run, isTries));
  if (isSearching(found.search)) setTimeout(() => searchOn(asked, settings, run), SEARCH_AGAIN_MS);
  return make("div", {}, answer(kinds.heading, { lead: ["In a group that all solve, or none, every try earns the same and nothing is learned. ", plural(choices.num_episodes, "try", "tries") + " so far, evaluations included."] }), make("p", { id: "news" }),
    stepsPart(kinds.steps, settings), make("section", {}, filters(run, settings, choices, isTries), results,
      found.num_left_out ? make("p", { class: "note", id: "left-out" }, "This file holds " + (choices.num_episodes - found.num_left_out).toLocaleString("en-US") + " of the run's " + choices.num_episodes.toLocaleString("en-US") + " episodes: failures of evaluations first, then the last steps.") : "",
      choices.num_bad_lines ? make("p", { class: "note" }, choices.num_bad_lines + " lines of the run's files could not be read and are left out.") : ""));
}

// The view as it is shown, with a line that says how many episodes are new.
function withNotice(numNew) {
  const shown = document.getElementById("main").firstElementChild, notice = make("p", { class: "notice info", id: "news", role: "status" }, plural(numNew, "new try", "new tries") + ": ", make("button", { type: "button", class: "pill", onclick: () => dispatchEvent(new Event("redraw")) }, "show"));
  const old = shown.querySelector("#news");
  if (old) old.replaceWith(notice);
  return shown;
}

// The groups of each step: none, all, or some of their tries succeeded. A bar filters by its step.
function stepsPart(steps, settings) {
  if (!steps.length) return "";
  const width = Math.ceil(steps.length / 120), parts = Array.from({ length: Math.ceil(steps.length / width) }, (_, i) => steps.slice(i * width, (i + 1) * width)), sum = (list, key) => list.reduce((total, each) => total + each[key], 0);
  const paint = (wide) => {
    const high = 84, each = wide / parts.length, top = Math.max(...parts.map((list) => sum(list, "all") + sum(list, "some") + sum(list, "none")), 1);
    const svg = draw("svg", { viewBox: "0 0 " + wide + " " + (high + 18), height: high + 18, role: "img", "aria-label": "groups by step: all, some or none of the tries succeeded; the list below can be filtered by step" });
    parts.forEach((list, i) => {
      const [first, last] = [list[0].step, list[list.length - 1].step], isShown = !settings.first || (Number(settings.first) <= last && Number(settings.last ?? settings.first) >= first);
      let y = high;
      const bars = [["some", "var(--accent)"], ["all", "var(--ok)"], ["none", "var(--fault)"]].map(([key, fill]) => { const tall = sum(list, key) / top * (high - 4); y -= tall; return tall ? draw("rect", { x: i * each + 0.5, y, width: Math.max(1, each - 1.5), height: Math.max(0.5, tall - 1), fill }) : ""; });
      svg.append(draw("g", { class: "bar-of-step", "data-step": first, opacity: isShown ? 1 : 0.4, onclick: () => go({ source: "train", first, last, offset: "" }) }, draw("title", {}, (first === last ? "step " + first : "steps " + first + " to " + last) + ": all succeeded " + sum(list, "all") + ", some " + sum(list, "some") + ", none " + sum(list, "none")), bars));
    });
    for (const i of new Set([0, Math.floor(parts.length / 2), parts.length - 1])) svg.append(draw("text", { x: i * each + each / 2, y: high + 14, "text-anchor": i ? i === parts.length - 1 ? "end" : "middle" : "start" }, (i ? "" : "step ") + parts[i][0].step));
    return svg;
  };
  return make("section", { class: "chart plain" }, make("figcaption", {}, make("h3", {}, "Groups by step"), make("span", {}, make("b", { class: "fault" }, "none succeeded"), " · ", make("b", { class: "ok" }, "all succeeded"), " · ", make("b", { class: "acc" }, "divided: these teach"))), sized({ class: "picture" }, paint));
}

// A filter in use is a pill that can be taken away; the others are behind one button.
function filters(run, settings, choices, isTries) {
  const set = (name) => (event) => go({ [name]: event.target.value, offset: "" }), typed = (name) => later((value) => go({ [name]: value, offset: "" }));
  const pick = (name, label, list) => make("label", {}, label + " ", make("select", { id: "filter-" + name, onchange: set(name) }, options([["", name === "error" ? "–" : "any"], ...list], settings[name] || "")));
  const counted = (list) => list.filter((each) => each.value !== "").map((each) => [each.value, brief(each.value, 60) + " (" + each.num + ")"]);
  const field = (name, label, type) => make("label", {}, label + " ", make("input", { id: "filter-" + name, type, step: "any", value: settings[name] || "", onchange: set(name) }));
  const pills = pillsOf(settings);
  return make("form", { class: "filters", onsubmit: (event) => event.preventDefault() },
    searchField({ id: "filter-search", placeholder: "Search questions, answers, calls, results", "aria-label": "search", title: 'words or "a phrase" (key: /)', value: settings.search || "", oninput: typed("search") }),
    isTries ? "" : choice("groups that are", [["", "any"], ["some", "divided"], ["all", "all right"], ["none", "all wrong"]], settings.kind || "", (kind) => go({ kind, offset: "" })),
    choice("list", [["", "groups"], ["tries", "tries"]], isTries ? "tries" : "", (list) => go(list ? { list, offset: "" } : { list, search: "", offset: "" })),
    make("details", { class: "menu", id: "more-filters" }, make("summary", {}, "+ filter"), make("div", {},
      pick("source", "played for", choices.source.map((each) => [each.value, nameOf(each.value) + " (" + each.num + ")"])), field("first", "step from", "number"), field("last", "to", "number"), field("task", "task has", "search"),
      pick("family", "family", counted(choices.family)), pick("difficulty", "difficulty", counted(choices.difficulty)), pick("success", "success", [["1", "yes"], ["0", "no"]]), pick("fault", "fault", counted(choices.fault).map(([value, said]) => [value, said.replace(value, FAULTS[value] || value)])),
      pick("tool", "tool", counted(choices.tool)), pick("error", "tool error", [["any", "of any class"], ...counted(choices.error).map(([value, said]) => [value, said.replaceAll("_", " ")])]), pick("check", "failed check", counted(choices.failed_check)), pick("stop", "stop", counted(choices.stop)),
      field("low", "reward from", "number"), field("high", "to", "number"), isTries ? make("label", {}, "order ", make("select", { id: "filter-sort", onchange: set("sort") }, options(orders(), settings.sort || "newest"))) : "")),
    pills, pills.length ? make("button", { type: "button", class: "pill", id: "clear", onclick: () => go(Object.fromEntries([...FILTERS, "offset"].map((name) => [name, ""]))) }, "clear") : "");
}

const SAID = { source: (value) => nameOf(value), task: (value) => "task has " + value, low: (value) => "reward ≥ " + value, high: (value) => "reward ≤ " + value, success: (value) => value === "1" ? "success" : "no success", stop: (value) => words(value), fault: (value) => FAULTS[value] || "no fault", error: (value) => value === "any" ? "a failed call" : words(value), check: (value) => "check “" + value + "” not met" };

function pillsOf(settings) {
  const names = FILTERS.filter((name) => settings[name] && !["search", "sort", "kind", "first", "last"].includes(name)), isStep = settings.first || settings.last;
  const pill = (said, without) => make("button", { type: "button", class: "pill on", "data-filter": Object.keys(without).join(" "), title: "take this filter away", onclick: () => go({ ...without, offset: "" }) }, said, " ×");
  return [...names.map((name) => pill(brief((SAID[name] || words)(settings[name]), 60), { [name]: "" })), isStep ? pill(settings.first === settings.last ? "step " + settings.first : "steps " + (settings.first || "0") + " to " + (settings.last || "the last"), { first: "", last: "" }) : ""].filter(Boolean);
}

function resultsOf(found, settings, run, isTries) {
  const none = () => make("div", { id: "list" }, make("p", { class: "lead-in" }, "No " + (isTries ? "try" : "group") + " fits" + (settings.search ? " “" + brief(settings.search, 60) + "”" : "") + "."), make("p", {}, [...pillsOf(settings)].map((pill) => [pill, " "])));
  const count = make("p", { class: "pages" }, make("span", { id: "total" }, whole(found.total)), isTries ? (found.total === 1 ? " try" : " tries") : (found.total === 1 ? " group" : " groups") + ", " + plural(found.num_episodes || 0, "try", "tries"), pages(found, settings));
  return [count, searchNote(found.search), !found.total ? none() : isTries ? triesTable(found, settings, run) : groupsTable(found, run)];
}

function pages(found, settings) {
  const offset = Number(settings.offset || 0);
  if (found.total <= PAGE) return "";
  const turn = (to, said, id) => make("button", { type: "button", class: "pill", id, disabled: to < 0 || to >= found.total || to === offset, onclick: () => go({ offset: to || "" }) }, said);
  return [" ", turn(Math.max(offset - PAGE, 0), "‹ previous", "previous"), " " + (offset + 1) + "–" + Math.min(offset + PAGE, found.total) + " ", turn(offset + PAGE, "next ›", "next")];
}

export function triesInGroup(run, group) {
  return group.num > 1 ? moved({ run, id: group.id, group: 1, turn: "" }, "trajectory") : moved({ run, id: group.id, turn: "" }, "trajectory");
}

function groupsTable(found, run) {
  const row = (group) => {
    const wrong = {}, faults = {}, address = triesInGroup(run.name, group);
    for (const member of group.members) { if (!member.is_success) wrong[member.answer || "no answer"] = (wrong[member.answer || "no answer"] || 0) + 1; if (FAULTS[member.fault]) faults[member.fault] = (faults[member.fault] || 0) + 1; }
    const said = Object.entries(wrong).sort((a, b) => b[1] - a[1]);
    return make("tr", { class: "go", "data-key": "group " + group.id, onclick: (event) => { if (!event.target.closest("a")) location.hash = address; } }, make("td", { class: "question-of" }, make("a", { class: "to", href: address, title: brief(group.task) }, group.question || brief(group.task)), make("small", {}, playedFor(group.source, group.step) + " · " + [words(group.family), group.difficulty].filter((each) => each && each !== "–").join(", "), make("span", { class: "sr" }, " " + brief(group.task)))),
      make("td", { class: "nowrap" }, winLoss(group.members.slice(0, 40)), make("span", { class: "small quiet" }, " " + (group.won || 0) + " of " + group.num)), make("td", { class: "desk cut short" }, make("b", {}, group.expected)),
      make("td", { class: "desk wrong" }, said.slice(0, 3).map(([each, n]) => [make("span", { class: "tag" }, brief(each, 40), n > 1 ? make("b", {}, " ×" + n) : ""), " "]), said.length > 3 ? make("span", { class: "small faint" }, "+" + (said.length - 3)) : ""),
      make("td", { class: "small" }, Object.entries(faults).map(([key, n]) => [make("span", { class: "tag " + (key === "infra" || key === "reward" ? "infra" : "fault") }, "✗ " + n + " " + FAULTS[key]), " "])), make("td", { class: "num desk quiet" }, whole(group.members.reduce((n, member) => n + member.num_tokens, 0) / group.num)));
  };
  return table(["task", "tries", { words: "expected", kind: "desk" }, { words: "wrong answers", kind: "desk" }, "faults", { words: "tokens", kind: "num desk" }], found.rows.map(row), { id: "list", class: "rows" });
}

// While episodes are being made searchable, the results follow, also while the search is being typed.
async function searchOn(asked, settings, run) {
  if (place().settings.search !== settings.search || !document.getElementById("results")) return;
  const found = await listedTries(asked).catch(() => null), results = document.getElementById("results");
  if (results && found && place().settings.search === settings.search) results.replaceChildren(...make("div", {}, resultsOf(found, settings, run, true)).childNodes);
  if (!found || isSearching(found.search)) setTimeout(() => searchOn(asked, settings, run), SEARCH_AGAIN_MS);
}

// In an exported file the page puts the rows in order itself.
async function listedTries(asked) {
  if (!recorded()) return ask("trajectories", asked);
  const found = await ask("trajectories", { ...asked, sort: "", offset: 0, limit: Number.MAX_SAFE_INTEGER }), start = Number(asked.offset || 0);
  return { ...found, rows: inOrder(found.rows, asked.sort).slice(start, start + PAGE) };
}

function triesTable(found, settings, run) {
  const sort = settings.sort || "newest";
  const heads = COLUMNS.map(({ head, key, up, down, isNumber }) => {
    if (found.search && key === "question") return { words: "found" };
    const [first, second] = isNumber ? [down, up] : [up, down], mark = sort === up ? " ↑" : sort === down ? " ↓" : "";
    return { words: head, kind: isNumber && key !== "step" ? "num" : "", more: { "aria-sort": mark ? (sort === up ? "ascending" : "descending") : null, content: make("button", { type: "button", id: "sort-" + up, onclick: () => go({ sort: sort === first ? second : first, offset: "" }) }, head + mark) } };
  });
  return table(heads, found.rows.map((row) => tryRow(row, run, found.search)), { id: "list", class: "rows tries" });
}

function tryRow(row, run, search) {
  const address = moved({ run: run.name, id: row.id, turn: "" }, "trajectory"), said = (text) => text ? make("span", { class: "words" }, text) : "";
  return make("tr", { class: "go", "data-key": "try " + row.id, onclick: (event) => { if (!event.target.closest("a")) location.hash = address; } }, [
    playedFor(row.source, row.step), make("a", { class: "to", href: address }, brief(row.task)), search && row.excerpt ? excerptOf(row.excerpt, run.name, row.id) : said(row.question), said(row.answer), said(row.expected), failedCheckOf(row), words(row.family),
    make("span", { class: toneOf(row.is_success) }, row.is_success ? "✓ " : row.is_success === null ? "? " : "✗ ", number(row.reward)), isFinished(row.stop) ? words(row.stop) : badge(words(row.stop), "fault"), row.fault === "none" ? "" : badge(FAULTS[row.fault] || row.fault, ["infra", "reward"].includes(row.fault) ? "infra" : "fault"),
    num(row.num_turns), num(row.num_calls), num(row.num_tokens), seconds(row.seconds)].map((content) => make("td", {}, content)));
}

// The first failed check; of a conversation, also which of its messages succeeded.
function failedCheckOf(row) {
  const check = row.failed_check ? badge(brief(row.failed_check, 40), "fault") : "";
  return row.messages ? [make("span", { class: "messages", title: "messages of the conversation" }, [...row.messages].map((mark, at) => [make("span", { class: toneOf(mark === "1") }, (at + 1) + (mark === "1" ? "✓" : "✗")), " "])), check] : check;
}
