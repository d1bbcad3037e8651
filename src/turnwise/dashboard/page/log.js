// The log of a run: its last lines, which follow the run, older ones a page at a time, a search and a filter by level.

import { ask } from "./api.js";
import { figure, longText, make } from "./dom.js";
import { go, moved } from "./place.js";
import { recorded } from "./recorded.js";

const LEVELS = { "": "all lines", warning: "warnings and errors", error: "errors" };
const TONES_OF_LEVELS = { warning: "warn", error: "bad" };

export async function log(runs, settings) {
  const section = make("section", { id: "log" }, make("h2", {}, "Log"));
  if (recorded()) return section.append(make("p", {}, "The log is not part of this file; open the run itself.")), section;
  const run = runs.find((each) => each.name === settings.run) || runs[0];
  const asked = { file: settings.file, end: settings.end, text: settings.text, level: settings.level };
  const found = await ask("log", { run: run.name, ...asked });
  section.append(tracebackOf(found), logFilters(settings, found));
  if (!found.files.length) return section.append(make("p", { id: "log-lines" }, "The run's folder has no log.")), section;
  const key = JSON.stringify([run.name, asked]);
  section.append(logPages(found, settings), found.lines.length ? linesOf(found, settings, key) : make("p", { id: "log-lines" }, settings.text || settings.level ? "No line fits here." : "The log is empty."),
    make("p", { class: "note" }, "The log holds what turnwise writes; the last lines of a lost server's stderr are in it, under the message of its loss."));
  return section;
}

// A process that failed without writing this log has its traceback in the record of the run's end.
function tracebackOf({ traceback }) {
  return traceback ? make("details", { id: "traceback", open: true }, make("summary", {}, "traceback of the process with rank " + figure(traceback.rank)), longText(traceback.text)) : "";
}

// A page that is opened shows its end; one that only grew stays where it was scrolled to.
function linesOf(found, settings, key) {
  const box = make("pre", { class: "text log", id: "log-lines", tabindex: "0", "data-key": key, "data-follows": settings.end ? null : "end" },
    found.lines.map((line) => [make("span", { class: TONES_OF_LEVELS[line.level], "data-level": line.level }, hitsIn(line.text, settings.text)), "\n"]));
  const shown = document.getElementById("log-lines");
  if (!shown || shown.dataset.key !== key) requestAnimationFrame(() => { box.scrollTop = box.scrollHeight; });
  return box;
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
  const set = (name) => (event) => go({ [name]: event.target.value, end: "" });
  const pick = (name, label, options) => make("label", {}, label + " ", make("select", { id: "log-" + name, onchange: set(name) }, options.map(([value, words]) => make("option", { value, selected: (settings[name] || "") === value }, words))));
  return make("form", { class: "settings", onsubmit: (event) => event.preventDefault() },
    found.files.length > 1 ? pick("file", "file", found.files.map((name, place) => [place ? name : "", name])) : "",
    make("label", {}, "line has ", make("input", { id: "log-text", type: "search", value: settings.text || "", onchange: set("text") })), pick("level", "show", Object.entries(LEVELS)));
}

// Pages are places in the file, so a log of any size opens at once.
function logPages(found, settings) {
  const isFiltered = Boolean(settings.text || settings.level), where = settings.end ? "up to " + (100 * found.end / (found.size || 1)).toFixed(1) + "% of the file" : "the end of the file";
  const looked = figure(Math.round((found.end - found.start) / 1024)) + " of " + figure(Math.ceil(found.size / 1024)) + " kB";
  return make("p", { class: "pages" }, found.file + ", " + where + ": " + figure(found.lines.length) + (found.lines.length === 1 ? " line" : " lines") + (isFiltered ? ", searched " + looked : "") + " ",
    found.start > 0 ? make("a", { id: "log-older", href: moved({ end: found.start }) }, "‹ older") : make("span", { class: "note" }, "from its beginning"),
    settings.end ? [" ", make("a", { id: "log-newest", href: moved({ end: "" }) }, "newest ›")] : "");
}
