// The bar above every view, the switcher of runs, the theme, and the list of keys.

import { brief, draw, make, options, plural, titleOf } from "./dom.js";
import { go, link, listAddress, moved, place } from "./place.js";
import { recorded } from "./recorded.js";

export const RUN_TABS = { overview: "Overview", health: "Health", trajectories: "Episodes", tools: "Tools", evaluations: "Evaluations", tasks: "Tasks", log: "Log" };
export const TOP_TABS = { runs: "Runs", compare: "Compare", explored: "Explored tasks" };
const STATES = { live: "live", reading: "reading …", gone: "no server", recorded: "as exported", done: "up to date" };
const KEYS = [["1–7", "views"], ["r", "another run"], ["/", "search"], ["j k", "next, previous row or try"], ["Enter", "open"], ["Esc", "up one level"], ["x", "choose a run"], ["c", "compare the chosen runs"], ["← → Home End", "along a chart or tokens"], ["t", "light or dark"], ["?", "this list"]];
const MAX_OFFERED = 60;

export const ENDED_BADLY = ["crashed", "died", "halted", "damaged"];

export function dotOf(state) {
  return make("i", { class: "dot " + (ENDED_BADLY.includes(state) ? "crit" : state === "running" ? "run now" : state === "finished" ? "ok" : "open"), "aria-hidden": "true" });
}

// The tabs of this view's level. In an exported file there are neither task files nor logs.
export function tabsOf(view) {
  const tabs = view in TOP_TABS ? { ...TOP_TABS } : { ...RUN_TABS };
  if (recorded()) for (const name of ["tasks", "log", "explored"]) delete tabs[name];
  return tabs;
}

// Asked for again at the click: what was chosen just before it may not be drawn yet.
export function tabAddress(name) {
  if (name === "trajectories" && place().view === "trajectory") return listAddress();
  return name in TOP_TABS ? link(name, name === "compare" ? { runs: place().settings.runs } : {}) : moved({}, name);
}

export function bar(view, run, runs, state) {
  const isRun = !(view in TOP_TABS) && run, isHere = (name) => name === view || (name === "trajectories" && view === "trajectory");
  const icon = draw("svg", { viewBox: "0 0 18 18", "aria-hidden": "true" }, draw("path", { d: "M2 5.5h8.5a3.5 3.5 0 0 1 0 7H5M7.6 9.6 4.6 12.5l3 3", fill: "none", stroke: "currentColor", "stroke-width": 2, "stroke-linecap": "round", "stroke-linejoin": "round" }));
  const tabs = Object.entries(tabsOf(view)).map(([name, said]) => make("a", { id: "view-" + name, href: tabAddress(name), onclick: (event) => { event.currentTarget.href = tabAddress(name); }, "aria-current": isHere(name) ? "page" : null }, said,
    name === "health" && run && run.standing.alarms && run.standing.alarms.length ? make("sup", { title: "kinds of alarm that have fired" }, String(run.standing.alarms.length)) : ""));
  const { title, when } = isRun ? titleOf(run.name) : {};
  return make("div", { class: "bar", id: "bar" },
    make("a", { class: "mark", href: link("runs", {}), "aria-label": "turnwise, all runs" }, icon, isRun ? "" : make("span", {}, "turnwise")),
    isRun ? make("div", { class: "crumb" }, make("a", { href: link("runs", {}), id: "to-runs" }, "Runs"), make("i", { "aria-hidden": "true" }, "/"), make("button", { type: "button", id: "switch", title: "another run (key: r)", onclick: () => openSwitch(runs, view) }, title), make("span", { class: "faint small" }, when)) : "",
    make("nav", { class: "tabs", id: "views", "aria-label": isRun ? "views of this run" : "views" }, tabs),
    make("div", { class: "tools" },
      isRun ? make("a", { class: "find", id: "find-all", href: moved({}, "trajectories"), onclick: (event) => { event.preventDefault(); dispatchEvent(new Event("find")); }, title: "search all episodes (key: /)", "aria-label": "search all episodes" }, lens(), make("span", {}, "Search"), make("kbd", {}, "/")) : "",
      make("span", { class: "live", id: "live", role: "status", "data-state": state }, dotOf(state === "gone" ? "died" : isRun && run.standing.state === "running" ? "running" : "finished"), make("span", { class: "small" }, STATES[state === "live" && isRun && run.standing.state !== "running" ? "done" : state] + (state === "gone" ? ", last seen " + new Date(seen).toTimeString().slice(0, 5) : ""))),
      make("button", { type: "button", id: "theme", title: "light or dark (key: t)", "aria-label": "light or dark", onclick: () => theme() }, draw("svg", { width: 16, height: 16, viewBox: "0 0 16 16", "aria-hidden": "true" }, draw("circle", { cx: 8, cy: 8, r: 6, fill: "none", stroke: "currentColor", "stroke-width": 1.5 }), draw("path", { d: "M8 2a6 6 0 0 1 0 12z", fill: "currentColor" }))),
      make("button", { type: "button", id: "help", title: "keys (key: ?)", "aria-label": "keys", onclick: openHelp }, "?")));
}

function lens() {
  return draw("svg", { width: 13, height: 13, viewBox: "0 0 13 13", "aria-hidden": "true" }, draw("circle", { cx: 5.5, cy: 5.5, r: 4, fill: "none", stroke: "currentColor", "stroke-width": 1.5 }), draw("path", { d: "m8.7 8.7 3 3", stroke: "currentColor", "stroke-width": 1.5, "stroke-linecap": "round" }));
}

let seen = Date.now();
export function remember(state) {
  if (state !== "gone") seen = Date.now();
}

function dialog(id, label, ...content) {
  const before = document.getElementById(id);
  if (before) before.remove();
  const box = make("dialog", { id, "aria-label": label, onclose: () => box.remove(), onclick: (event) => { if (event.target === box) box.close(); } }, content);
  document.body.append(box);
  box.showModal();
  return box;
}

// What belongs to the run that was shown before.
const OF_ANOTHER_RUN = { offset: "", id: "", of: "", group: "", turn: "", before: "", after: "", file: "", end: "" };

// Another run, found by its name, recipe, state or tags.
export function openSwitch(runs, view) {
  const list = make("ul", {}), target = view in TOP_TABS ? "overview" : view === "trajectory" ? "trajectories" : view;
  const show = (typed) => {
    const fit = runs.filter((run) => isFound(run, typed));
    list.replaceChildren(...fit.slice(0, MAX_OFFERED).map((run) => make("li", {}, make("a", { href: moved({ ...OF_ANOTHER_RUN, run: run.name }, target), onclick: () => box.close() }, dotOf(run.standing.state), " ", make("b", {}, titleOf(run.name).title), " ", make("span", { class: "faint small" }, titleOf(run.name).when + " " + run.standing.state)))),
      ...(fit.length > MAX_OFFERED ? [make("li", { class: "faint small" }, "and " + plural(fit.length - MAX_OFFERED, "other") + "; type more of the name")] : fit.length ? [] : [make("li", { class: "faint" }, "No run has these words.")]));
  };
  const field = make("input", { type: "search", class: "pill", id: "run-shown", "aria-label": "another run", placeholder: "name, recipe, state, tag", oninput: (event) => show(event.target.value), onkeydown: (event) => { if (event.key === "Enter" && list.querySelector("a")) { event.preventDefault(); list.querySelector("a").click(); } } });
  const box = dialog("switcher", "another run", field, list);
  show("");
  field.focus();
}

// Every word occurs in the run's name, recipe, state or tags.
export function isFound({ name, standing }, typed) {
  const text = [name, standing.recipe_file, standing.state, ...(standing.tags || [])].join(" ").toLowerCase();
  return typed.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}

export function openHelp() {
  dialog("keys", "keys", make("h2", {}, "Keys"), make("dl", { class: "facts" }, KEYS.map(([key, said]) => [make("dt", {}, make("kbd", {}, key)), make("dd", {}, said)])),
    make("label", {}, make("input", { type: "checkbox", id: "single-keys", checked: hasKeys(), onchange: (event) => keep("keys", event.target.checked ? "on" : "off") }), " single letters are keys"));
}

export function hasKeys() {
  return kept("keys") !== "off";
}

function kept(name) {
  try { return localStorage.getItem(name); } catch { return null; } // a file may not keep anything
}

function keep(name, value) {
  try { localStorage.setItem(name, value); } catch { /* as above */ }
}

export function theme(next) {
  const now = document.documentElement.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  const wanted = next || (now === "dark" ? "light" : "dark");
  document.documentElement.dataset.theme = wanted;
  keep("theme", wanted);
}

export function restoreTheme() {
  if (kept("theme")) theme(kept("theme"));
}

// Two choices of a list: what an episode list or a table of tools is of.
export function pickRun(id, label, list, value, setting) {
  return make("label", {}, label + " ", make("select", { id, onchange: (event) => go({ [setting]: event.target.value, offset: "" }) }, options(list.map(([each, said]) => [each, brief(said, 60)]), value)));
}
