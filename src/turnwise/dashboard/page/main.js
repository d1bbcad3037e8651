// Puts the views together: which run is shown, which view, and what happens when a run grows.

import { ask, listen } from "./api.js";
import { make } from "./dom.js";
import { growth } from "./live.js";
import { morph } from "./morph.js";
import { firstWords, overview } from "./overview.js";
import { go, link, listAddress, moved, place } from "./place.js";
import { recorded } from "./recorded.js";
import { runTable } from "./runs.js";
import { bar, hasKeys, openHelp, openSwitch, remember, restoreTheme, RUN_TABS, tabAddress, tabsOf, theme, TOP_TABS } from "./shell.js";

// The first views come with the page; the others when they are asked for.
const VIEWS = { overview: async () => overview, runs: async () => runTable, health: () => import("./health.js").then((module) => module.health), trajectories: () => import("./episodes.js").then((module) => module.episodes),
  trajectory: () => import("./episode.js").then((module) => module.conversation), tools: () => import("./tools.js").then((module) => module.tools), evaluations: () => import("./evaluations.js").then((module) => module.evaluations), tasks: () => import("./tasks.js").then((module) => module.tasks),
  compare: () => import("./compare.js").then((module) => module.compare), explored: () => import("./explored.js").then((module) => module.explored), log: () => import("./log.js").then((module) => module.log) };
const main = document.getElementById("main");
let wantsSearch = false, listed = { runs: [], heading: "" }, runs = [], drawing = 0, numAtWork = 0, waiting = null, shownView = "", state = recorded() ? "recorded" : "reading";

// The view of the address; without one, the only run's overview, or all runs.
function viewNow() {
  const { view, settings } = place();
  if (!runs.length && !(view in TOP_TABS)) return listed.numExplored ? "explored" : "runs";
  if (view === "overview" && chosen().length > 1 && !settings.run) return "compare"; // as older addresses have it
  return view || (runs.length === 1 ? "overview" : "runs");
}

function chosen() {
  const wanted = (place().settings.runs || "").split(",").filter(Boolean);
  return runs.filter((run) => wanted.includes(run.name));
}

// The run of the address, else the first chosen one, else the newest.
function current() {
  return runs.find((run) => run.name === place().settings.run) || chosen()[0] || runs[runs.length - 1];
}

// The list of runs has a row of each; the views of single runs show more of those that are chosen.
async function complete(run) {
  run.standing = { ...run.standing, ...(await ask("standing", { run: run.name })) };
}

async function draw_(isGrowth) {
  const own = ++drawing;
  numAtWork += 1;
  growth.is = isGrowth;
  try {
    if (!runs.length || isGrowth) await readRuns();
    const view = viewNow(), { settings } = place(), run = current(), isOfRun = !(view in TOP_TABS);
    heads(view);
    if (isOfRun) {
      if (!isGrowth && view === "overview" && view !== shownView) main.replaceChildren(firstWords(run));
      await complete(run);
    }
    const shown = await VIEWS[view in VIEWS ? view : "overview"](), content = await shown(isOfRun ? [run] : chosen(), settings, runs, listed);
    if (own !== drawing) return;
    replace(content, isGrowth, view);
  } catch (error) {
    if (own !== drawing) return;
    if (!isGrowth) main.replaceChildren(make("p", { class: "fault", role: "alert" }, "This could not be shown: " + error.message));
  } finally {
    numAtWork -= 1;
  }
}

async function readRuns() {
  const found = await ask("runs");
  if (!found.runs.length && !recorded()) found.numExplored = (await ask("explorations")).length;
  listed = found;
  runs = found.runs.map((standing) => ({ name: standing.name, standing }));
}

function replace(content, isGrowth, view) {
  const isSame = view === shownView && main.firstElementChild && main.children.length === 1;
  if (isSame) morph(main.firstElementChild, content); else main.replaceChildren(content);
  heads(view);
  if (!isGrowth && view !== shownView) {
    window.scrollTo(0, 0);
    const isHeld = document.activeElement && document.activeElement !== document.body;
    if (shownView && !isHeld) main.focus({ preventScroll: true }); // the next Tab goes on in what is new
  }
  const field = main.querySelector(".find-in");
  if (wantsSearch && field) field.focus();
  wantsSearch = false;
  shownView = view;
  main.dataset.view = view;
  main.dataset.drawn = String(drawing);
}

function heads(view) {
  const run = current(), wanted = bar(view, run, runs, state), shown = document.getElementById("bar");
  if (shown) morph(shown, wanted); else document.querySelector("header").append(wanted);
  const said = view in TOP_TABS || !run ? TOP_TABS[view] || "" : (view === "overview" ? "" : (RUN_TABS[view] || "Episode") + ", ") + run.name;
  document.title = (view === "overview" && run ? shortly(run.standing) : "") + said + ", turnwise";
}

// The answer in a few characters: "91%, step 24 of 40".
function shortly({ state: state_, last_step: last, num_steps: num, latest, heldout }) {
  const success = heldout && heldout.after !== null ? heldout.after : latest["success/rate"], part = success === null || success === undefined ? "" : Math.round(100 * success) + "%, ";
  return state_ === "running" && last !== null ? part + "step " + (last + 1) + (num ? " of " + num : "") + ", " : part;
}

// New lines come every second; the page follows every two, and not while a pointer is over a chart, text is selected or a menu is open.
// Growth never takes the place of a drawing that is under way: where that takes long, nothing would ever be shown.
function grew() {
  if (waiting) return;
  waiting = setTimeout(() => {
    waiting = null;
    const isBusy = numAtWork || main.querySelector(":active, .picture:hover, .menu[open]") || !getSelection().isCollapsed;
    if (isBusy) return grew();
    const isTyping = document.activeElement && ["INPUT", "SELECT"].includes(document.activeElement.tagName) && main.contains(document.activeElement);
    if (!isTyping && !place().settings.id) draw_(true);
    else if (!runs.length) draw_(false);
  }, 2000);
}

// Out of a field, a group, an episode or a task, and from a run to all runs.
function leave(isField) {
  const { view, settings } = place();
  if (isField) main.focus({ preventScroll: true });
  else if (view === "trajectory") location.hash = settings.group || !settings.from_group ? listAddress() : moved({ group: 1, turn: "", from_group: "" });
  else if (view === "tasks" && settings.id) location.hash = moved({ id: "", of: "" });
  else if (!(viewNow() in TOP_TABS)) location.hash = link("runs", {});
}

// To the field of this view that searches texts; from a view without one, to that of the episodes.
function toSearch() {
  const field = main.querySelector(".find-in");
  if (field) return field.focus();
  wantsSearch = true;
  location.hash = place().view === "trajectory" ? listAddress() : moved({}, "trajectories");
}

// To the next row that can be opened, or the next try of a group.
function step(by) {
  const next = main.querySelector(by > 0 ? "#next-try" : "#previous-try");
  if (next) return next.click();
  const rows = [...main.querySelectorAll("tr.go a.to, .task > summary")].filter((each) => each.checkVisibility()), now = rows.indexOf(document.activeElement);
  const row = rows[Math.min(Math.max(now + by, 0), rows.length - 1)];
  if (row) row.focus();
}

const LETTERS = { t: () => theme(), r: () => openSwitch(runs, viewNow()), j: () => step(1), k: () => step(-1), "?": openHelp, "/": toSearch,
  x: () => { const pick = document.activeElement.closest("tr")?.querySelector(".check"); if (pick) pick.click(); },
  c: () => { const field = document.querySelector(".dock a"); location.hash = field ? field.hash : link("compare", { runs: place().settings.runs }); } };

function keys(event) {
  if (document.querySelector("dialog[open]")) return;
  const isField = ["INPUT", "SELECT", "TEXTAREA"].includes(event.target.tagName) && event.target.type !== "checkbox";
  if (event.key === "Escape") {
    if (isField) event.preventDefault(); // a search field would be emptied
    const menu = main.querySelector(".menu[open]");
    if (menu) { menu.open = false; return menu.querySelector("summary").focus(); }
    return leave(isField);
  }
  if (event.ctrlKey || event.metaKey || event.altKey || isField || !hasKeys()) return;
  const names = Object.keys(tabsOf(viewNow())), number_ = Number(event.key);
  if (number_ >= 1 && number_ <= names.length) location.hash = tabAddress(names[number_ - 1]);
  else if (LETTERS[event.key]) { event.preventDefault(); LETTERS[event.key](); }
}

restoreTheme();
document.addEventListener("keydown", keys);
document.addEventListener("click", (event) => { for (const menu of document.querySelectorAll(".menu[open]")) if (!menu.contains(event.target)) menu.open = false; });
// not by its address: that is where the view is kept
document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); main.focus(); });
window.addEventListener("hashchange", () => draw_(false));
window.addEventListener("find", toSearch);
window.addEventListener("redraw", () => draw_(false));
const say = (now) => { const isNews = state !== now; state = now; remember(now); if (isNews && runs.length) heads(viewNow()); };
listen(grew, say);
draw_(false);
