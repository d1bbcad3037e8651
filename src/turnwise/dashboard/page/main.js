// Puts the views together: which runs are shown, which view, and what happens when a run grows.

import { ask, listen } from "./api.js";
import { repaint } from "./chart.js";
import { conversation } from "./conversation.js";
import { figure, make } from "./dom.js";
import { evaluations } from "./evaluations.js";
import { health } from "./health.js";
import { hold } from "./hold.js";
import { log } from "./log.js";
import { overview } from "./overview.js";
import { go, listAddress, moved, place } from "./place.js";
import { recorded } from "./recorded.js";
import { currentFirst, runBar, showsOneRun } from "./run_bar.js";
import { runTable } from "./run_table.js";
import { tasks } from "./tasks.js";
import { tools } from "./tools.js";
import { trajectories } from "./trajectories.js";

const VIEWS = { overview, health, trajectories, tools, evaluations, tasks, runs: runTable, log, trajectory: conversation };
const TABS = { overview: "Overview", health: "Health", trajectories: "Trajectories", tools: "Tools", evaluations: "Evaluations", tasks: "Tasks", runs: "Runs", log: "Log" };
if (recorded()) for (const name of ["tasks", "log"]) delete TABS[name]; // an exported file holds neither task files nor logs
const MAX_CHIPS = 24; // with more runs than this, only the chosen ones are above every view
const ENDED_BADLY = ["crashed", "died", "halted", "damaged"];
const STATES = { live: "● connected", reading: "◌ reading the runs …", gone: "○ the server is gone", recorded: "as exported" };

const main = document.getElementById("main");
let wantsSearch = false, runs = [], drawing = 0, numAtWork = 0, waiting = null, shownView = "";

function chosen() {
  const wanted = (place().settings.runs || "").split(",").filter(Boolean);
  const found = runs.filter((run) => wanted.includes(run.name));
  return found.length ? found : runs.slice(-1);
}

// The list of runs has a row of each; the views of single runs show more of those that are chosen.
async function complete(run) {
  if (!run.isComplete) run.standing = { ...run.standing, ...(await ask("standing", { run: run.name })) };
  run.isComplete = true;
}

async function draw_(isGrowth) {
  const own = ++drawing, { view, settings } = place();
  numAtWork += 1;
  try {
    if (!runs.length || isGrowth) runs = (await ask("runs")).map((standing, colour) => ({ name: standing.name, standing, colour }));
    const shown = showsOneRun(view) ? currentFirst(chosen(), settings) : chosen();
    if (view !== "runs") await Promise.all(shown.map(complete));
    const content = await (runs.length ? VIEWS[view] || overview : runTable)(shown, settings, runs); // without a run there are failed starts
    if (own !== drawing) return;
    if (runs.length && showsOneRun(view)) content.prepend(runBar(view, shown, runs));
    replace(content, isGrowth, view);
    return;
  } catch (error) {
    if (own !== drawing) return;
    if (!isGrowth) main.replaceChildren(make("p", { class: "poor", role: "alert" }, "This could not be shown: " + error.message));
  } finally {
    numAtWork -= 1;
  }
  const giveBack = hold(true);
  heads(view);
  giveBack();
}

function replace(content, isGrowth, view) {
  const giveBack = hold(isGrowth);
  main.replaceChildren(content);
  heads(view);
  const isHeld = giveBack();
  if (!isGrowth && view !== shownView) {
    window.scrollTo(0, 0);
    if (shownView && !isHeld) main.focus({ preventScroll: true }); // the next Tab goes on in what is new
  }
  if (wantsSearch && view === "trajectories") document.getElementById("filter-search").focus();
  wantsSearch = false;
  shownView = view;
  main.dataset.view = view;
  main.dataset.drawn = String(drawing);
}

// Asked for again at the click: what was chosen just before it may not be drawn yet.
function tabAddress(name) {
  return name === "trajectories" && place().view === "trajectory" ? listAddress() : moved({}, name);
}

function heads(view) {
  const isHere = (name) => name === view || (name === "trajectories" && view === "trajectory");
  document.getElementById("views").replaceChildren(...Object.entries(TABS).map(([name, words]) => make("a", { id: "view-" + name, href: tabAddress(name), onclick: (event) => { event.currentTarget.href = tabAddress(name); }, "aria-current": isHere(name) ? "page" : null }, words)));
  const shown = chosen();
  const offered = runs.length > MAX_CHIPS ? shown.slice(0, MAX_CHIPS) : runs;
  const all = offered === runs ? [] : [make("a", { id: "all-runs", href: moved({}, "runs") }, "choose among all " + figure(runs.length) + " runs")];
  document.getElementById("runs").replaceChildren(...all, ...offered.map((run) => make("label", { class: "chip key c" + (1 + run.colour % 8), title: run.standing.folder },
    make("input", { id: "run-" + run.name, type: "checkbox", checked: shown.includes(run), onchange: (event) => toggle(run, event.target.checked) }), run.name, " ", stateIn(run))));
  document.title = "turnwise: " + (TABS[view] || "trajectory");
}

// The state of a run that failed leads to its log.
function stateIn({ name, standing: { state } }) {
  const words = make("small", { class: ENDED_BADLY.includes(state) ? "bad" : null }, state);
  return ["crashed", "died"].includes(state) && TABS.log ? make("a", { href: moved({ runs: name, run: name }, "log"), title: "open its log" }, words) : words;
}

function toggle(run, isOn) {
  const names = new Set(chosen().map((each) => each.name));
  if (isOn) names.add(run.name); else names.delete(run.name);
  go({ runs: [...names].join(","), run: "" });
}

// New lines come every second; the page follows every two, and not while a form is filled in or an episode or task is read.
// Growth never takes the place of a drawing that is under way: where that takes long, nothing would ever be shown.
function grew() {
  if (waiting) return;
  waiting = setTimeout(() => {
    waiting = null;
    if (numAtWork || main.querySelector(":active")) return grew(); // or the chart would go away under a drag
    const isTyping = document.activeElement && ["INPUT", "SELECT"].includes(document.activeElement.tagName) && main.contains(document.activeElement);
    if (!isTyping && !place().settings.id) draw_(true);
    else if (!runs.length) draw_(false);
  }, 2000);
}

function theme(next) {
  const now = document.documentElement.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  const wanted = next || (now === "dark" ? "light" : "dark");
  document.documentElement.dataset.theme = wanted;
  repaint();
  try { localStorage.setItem("theme", wanted); } catch { /* a file may not keep anything */ }
}

// Out of a field, a group, an episode or a task.
function leave(isField) {
  if (isField) main.focus({ preventScroll: true });
  else if (place().view === "trajectory") location.hash = place().settings.group ? moved({ group: "" }) : listAddress();
  else if (place().view === "tasks" && place().settings.id) location.hash = moved({ id: "", of: "" });
}

// To the field of this view that searches texts; from a view without one, to that of the episodes.
function toSearch() {
  const field = document.getElementById("filter-search") || document.getElementById("filter-task");
  if (field) return field.focus();
  wantsSearch = true;
  location.hash = place().view === "trajectory" ? listAddress() : moved({}, "trajectories");
}

function keys(event) {
  const isField = ["INPUT", "SELECT", "TEXTAREA"].includes(event.target.tagName);
  if (event.key === "Escape") {
    if (isField) event.preventDefault(); // a search field would be emptied
    return leave(isField);
  }
  if (event.ctrlKey || event.metaKey || event.altKey || isField) return;
  const names = Object.keys(TABS), number = Number(event.key);
  if (number >= 1 && number <= names.length) go({}, names[number - 1]);
  else if (event.key === "t") theme();
  else if (event.key === "/" ) { event.preventDefault(); toSearch(); }
}

try { if (localStorage.getItem("theme")) theme(localStorage.getItem("theme")); } catch { /* as above */ }
document.getElementById("theme").addEventListener("click", () => theme());
document.addEventListener("keydown", keys);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
// not by its address: that is where the view is kept
document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); main.focus(); });
window.addEventListener("hashchange", () => draw_(false));
const say = (state) => { document.getElementById("live").textContent = STATES[state]; document.getElementById("live").dataset.state = state; };
if (recorded()) say("recorded");
listen(grew, say);
draw_(false);
