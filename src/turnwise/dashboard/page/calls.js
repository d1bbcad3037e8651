// The calls of a tool one by one, the newest first; each leads to the turn that made it.

import { ask } from "./api.js";
import { rangeOf } from "./axes.js";
import { badge, brief, cells, longText, make, options, part, plural, seconds, table, whole } from "./dom.js";
import { go, moved } from "./place.js";
import { recorded } from "./recorded.js";
import { playedFor } from "./source.js";

const CALLS_PAGE = 20;
const KINDS = { "": "failed, any class", infra: "failed, not by the model", retried: "retried" };

// found: the answer about tools, whose classes can be chosen.
export async function callsOf(run, settings, source, found) {
  const asked = { run: run.name, source, ...rangeOf(settings), tool: settings.tool, server: settings.server, error: settings.error, offset: settings.offset, limit: CALLS_PAGE };
  const listed = await ask("calls", asked);
  const classes = [...new Set(found.tools.flatMap((tool) => Object.keys(tool.causes)))].sort();
  const pick = (name, label, list) => make("label", {}, label + " ", make("select", { id: "calls-" + name, onchange: (event) => go({ [name]: event.target.value, offset: "" }) }, options(list, settings[name] || "")));
  const rows = listed.rows.map((row) => callRow(row, run));
  return part("Calls one by one", "the newest first; each leads to the turn that made it", make("div", { id: "calls" },
    make("form", { class: "filters", onsubmit: (event) => event.preventDefault() },
      pick("tool", "tool", [["", "any"], ...found.tools.map((tool) => [tool.tool, brief(tool.tool, 60)])]),
      pick("server", "server", [["", "any"], ...found.servers.map((each) => [each.server, brief(each.server, 60)])]),
      pick("error", "calls that", [...Object.entries(KINDS), ...classes.map((name) => [name, name.replaceAll("_", " ")])])),
    recorded() ? make("p", { class: "note" }, "Only calls of the episodes in this file.") : "",
    callPages(listed, settings),
    rows.length ? table(["played for", "tool", "result", "time", "arguments", "what came back"], rows, { id: "call-list" }) : make("p", { id: "call-list", class: "quiet" }, "No such call.")));
}

function callRow(row, run) {
  const address = moved({ run: run.name, id: row.id, turn: row.turn }, "trajectory");
  return make("tr", { "data-cause": row.cause }, cells(
    [make("a", { href: address }, playedFor(row.source, row.step) + (row.turn ? ", turn " + row.turn : "")), make("p", { class: "note" }, brief(row.task, 60))],
    brief(row.tool, 60), [badge(row.cause.replaceAll("_", " "), row.cause === "ok" ? "ok" : row.fault === "infra" ? "infra" : "fault"), row.num_retries ? make("p", { class: "note" }, plural(row.num_retries, "retry", "retries")) : ""],
    seconds(row.seconds), row.arguments === null ? "the run has removed it" : longText(row.arguments, "arguments"), row.content === null ? "" : longText(row.content, "result")));
}

function callPages(listed, settings) {
  const offset = Number(settings.offset || 0);
  const turn = (to, words, id) => make("button", { type: "button", class: "pill", id, disabled: to < 0 || to >= listed.total || to === offset, onclick: () => go({ offset: to || "" }) }, words);
  return make("p", { class: "pages" }, make("span", { id: "calls-total" }, whole(listed.total)), listed.total === 1 ? " call" : " calls", ", the newest first ",
    listed.total > CALLS_PAGE ? [turn(Math.max(offset - CALLS_PAGE, 0), "‹ newer", "newer"), " " + (offset + 1) + "–" + Math.min(offset + CALLS_PAGE, listed.total) + " ", turn(offset + CALLS_PAGE, "older ›", "older")] : "");
}
