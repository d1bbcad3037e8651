// The log of a run: its last lines, which follow the run, older ones a page at a time, a search and a filter by level.

import { ask } from "./api.js";
import { answer, longText, make, options, searchField, whole } from "./dom.js";
import { go, moved } from "./place.js";
import { recorded } from "./recorded.js";
import { later } from "./runs.js";

const LEVELS = { "": "all lines", warning: "warnings and errors", error: "errors" };
const TONES_OF_LEVELS = { warning: "fault", error: "crit" };

export async function log([run], settings) {
  if (recorded()) return make("div", { id: "log" }, answer("The log is not part of this file.", { lead: "Open the run itself." }));
  const asked = { file: settings.file, end: settings.end, text: settings.text, level: settings.level }, found = await ask("log", { run: run.name, ...asked });
  if (!found.files.length) return make("div", { id: "log" }, answer(found.heading), tracebackOf(found), make("p", { id: "log-lines" }));
  const key = JSON.stringify([run.name, asked]);
  return make("div", { id: "log" }, answer(found.heading), tracebackOf(found), make("section", {}, logFilters(settings, found), logPages(found, settings), found.lines.length ? linesOf(found, settings, key) : make("p", { id: "log-lines" }, settings.text || settings.level ? "No line fits here." : "The log is empty."),
    make("p", { class: "note" }, "The log holds what turnwise writes; the last lines of a lost server's stderr are in it, under the message of its loss.")));
}

// A process that failed without writing this log has its traceback in the record of the run's end.
function tracebackOf({ traceback }) {
  return traceback ? make("details", { id: "traceback", class: "more", open: true }, make("summary", {}, "traceback of the process with rank " + traceback.rank), longText(traceback.text)) : "";
}

// A page that is opened shows its end; one that only grew stays where it was scrolled to, at the end if it was there.
function linesOf(found, settings, key) {
  const shown = document.getElementById("log-lines"), isSame = shown && shown.dataset.log === key, isAtEnd = isSame && shown.scrollTop + shown.clientHeight >= shown.scrollHeight - 4;
  if (!isSame || (isAtEnd && !settings.end)) requestAnimationFrame(() => { const box = document.getElementById("log-lines"); if (box) box.scrollTop = box.scrollHeight; });
  return make("pre", { class: "text log", id: "log-lines", tabindex: "0", "data-log": key }, found.lines.map((line) => [make("span", { class: TONES_OF_LEVELS[line.level], "data-level": line.level }, hitsIn(line.text, settings.text)), "\n"]));
}

function hitsIn(text, wanted) {
  if (!wanted) return text;
  const parts = [], low = text.toLowerCase(), sought = wanted.toLowerCase();
  if (low.length !== text.length) return text; // a letter whose small form is longer would move the marks
  let from = 0;
  for (let at = low.indexOf(sought); at >= 0; at = low.indexOf(sought, from)) {
    parts.push(text.slice(from, at), make("mark", {}, text.slice(at, at + sought.length)));
    from = at + sought.length;
  }
  return [...parts, text.slice(from)];
}

function logFilters(settings, found) {
  const pick = (name, label, list) => make("label", {}, label + " ", make("select", { id: "log-" + name, onchange: (event) => go({ [name]: event.target.value, end: "" }) }, options(list, settings[name] || "")));
  return make("form", { class: "filters", onsubmit: (event) => event.preventDefault() }, searchField({ id: "log-text", placeholder: "Find in the log", "aria-label": "find in the log", value: settings.text || "", oninput: later((value) => go({ text: value, end: "" })) }),
    found.files.length > 1 ? pick("file", "file", found.files.map((name, place) => [place ? name : "", name])) : "", pick("level", "show", Object.entries(LEVELS)));
}

// Pages are places in the file, so a log of any size opens at once.
function logPages(found, settings) {
  const isFiltered = Boolean(settings.text || settings.level), where = settings.end ? "up to " + (100 * found.end / (found.size || 1)).toFixed(1) + "% of the file" : "the end of the file";
  const looked = whole((found.end - found.start) / 1024) + " of " + whole(Math.ceil(found.size / 1024)) + " kB";
  return make("p", { class: "pages" }, found.file + ", " + where + ": " + whole(found.lines.length) + (found.lines.length === 1 ? " line" : " lines") + (isFiltered ? ", searched " + looked : "") + " ",
    found.start > 0 ? make("a", { id: "log-older", href: moved({ end: found.start }) }, "‹ older") : make("span", { class: "note" }, "from its beginning"),
    settings.end ? [" ", make("a", { id: "log-newest", href: moved({ end: "" }) }, "newest ›")] : "");
}
