// Explored tasks: how many were proved, what they reach, why drafts were rejected, and the tasks themselves, hardest first.

import { ask } from "./api.js";
import { answer, brief, capital, choice, lazy, longText, make, number, options, part, plural, searchField, table, took, whole, words } from "./dom.js";
import { go, moved } from "./place.js";
import { later } from "./runs.js";
import { demonstrationOf } from "./tasks.js";

const SHOWN_TASKS = 50, DIFFICULTIES = ["easy", "medium", "hard"];

export async function explored(_, settings) {
  const all = await ask("explorations"), name = settings.name || (all[0] || {}).name;
  if (!name) return make("div", {}, answer("No explored tasks in this folder.", { lead: ["Write some with ", make("code", {}, "turnwise explore"), "; look at them with ", make("code", {}, "turnwise view"), " and their folder, or through a run that trains on them."] }));
  const found = await ask("exploration", { name }), { figures } = found;
  const pick = all.length > 1 ? make("label", {}, "explored: ", make("select", { id: "exploration-of", onchange: (event) => go({ name: event.target.value }) }, options(all.map((each) => [each.name, each.name + ", " + plural(each.figures.num_tasks, "task")]), name))) : brief(name, 80) + "/";
  const eyebrow = [pick, figures ? [" · explored in " + took(figures.seconds), " · " + plural(figures.num_calls, "call")] : ""];
  return make("div", { id: "exploration" }, answer(found.heading, { eyebrow, lead: leadOf_(found) }),
    make("section", { class: "half" }, make("div", {}, make("div", { class: "head" }, make("h2", {}, "What is reached?"), make("p", {}, "tasks that need each tool; of the others, why")), coverage(found)), make("div", {}, make("div", { class: "head" }, make("h2", {}, "What kind?")), kindsOf(found.tasks), make("div", { class: "head spaced" }, make("h2", {}, "Why were drafts rejected?")), rejectedOf(found))),
    part("The tasks", "the hardest first; open one to see the plan that proves it", tasksOf(found, settings, name)));
}

function leadOf_({ tasks: list, figures, rejections, tools: all, num_listed: num_, num_held_out: heldOut }) {
  const splits = ["train", "validation", "test"].map((split) => [split, list.filter((task) => task.split === split).length]).filter(([, n]) => n), rejected = rejections.reduce((sum, each) => sum + each.num, 0), unused = all.filter((tool) => !tool.num_tasks);
  return [splits.length ? splits.map(([split, n]) => whole(n) + " for " + (split === "test" ? "the test" : split)).join(", ") + ". " : "", rejected ? [plural(rejected, "draft"), " rejected" + (figures ? ", " + whole(figures.num_links) + " links found between tools" : "") + ". "] : "", heldOut ? plural(heldOut, "combination") + " of tools held out for the test. " : "", num_ > list.length ? "The first " + list.length + " of " + whole(num_) + " tasks are listed. " : "",
    unused.length ? "Unused: " + unused.slice(0, 3).map((tool) => tool.name).join(", ") + (unused.length > 3 ? " and " + (unused.length - 3) + " more" : "") + "." : all.length ? "Every tool is in a task." : ""];
}

// Each server with its tools, those in most tasks first; of a tool that no task uses, why.
function coverage(found) {
  const most = Math.max(1, ...found.tools.map((tool) => tool.num_tasks)), names = [...new Set([...found.servers.map((server) => server.server), ...found.tools.map((tool) => tool.server)])], isNarrow = document.documentElement.clientWidth < 760;
  const one = (name) => {
    const server = found.servers.find((each) => each.server === name) || {}, own = found.tools.filter((tool) => tool.server === name).sort((a, b) => b.num_tasks - a.num_tasks), used = own.filter((tool) => tool.num_tasks).length;
    const rows = own.flatMap((tool) => [make("span", { class: "mono cut" + (tool.num_tasks ? "" : " faint"), "data-tool": tool.name, title: tool.name + ": " + tool.reach + ", " + plural(tool.num_calls, "call") + ", " + tool.num_answers + " answered" }, brief(tool.name, 60)), tool.num_tasks ? make("div", {}, make("div", { class: "b", style: "width:" + (100 * tool.num_tasks / most).toFixed(1) + "%" })) : make("span", { class: "small faint why" }, tool.reason || tool.reach), make("span", { class: "num quiet" }, String(tool.num_tasks))]);
    const said = (server.why_not ? server.why_not + ". " : "") + (server.num_calls ? plural(server.num_calls, "call") + ", " : "") + used + " of " + plural(own.length, "tool") + " in tasks";
    return isNarrow ? make("details", { class: "fold", id: "server " + name }, make("summary", {}, make("b", {}, brief(name, 40)), make("span", { class: "quiet" }, used + " of " + plural(own.length, "tool"))), make("div", { class: "bars" }, server.why_not ? make("p", { class: "fault g" }, server.why_not) : "", rows)) : [make("div", { class: "g" }, brief(name, 60), make("span", { class: server.why_not ? "fault" : "" }, said)), rows];
  };
  const more = found.num_tools > found.tools.length ? make("p", { class: "note" }, "The first " + found.tools.length + " of " + whole(found.num_tools) + " tools.") : "";
  return make("div", { id: "tools-found" }, isNarrow ? names.map(one) : make("div", { class: "bars" }, names.map(one)), more);
}

function kindsOf(list) {
  const families = [...new Set(list.map((task) => task.family))].sort(), levels = [...DIFFICULTIES, ...new Set(list.map((task) => task.difficulty).filter((level) => !DIFFICULTIES.includes(level)))].filter((level) => list.some((task) => task.difficulty === level));
  const rows = families.slice(0, 40).map((family) => { const own = list.filter((task) => task.family === family); return make("tr", {}, make("td", {}, make("b", {}, words(family))), levels.map((level) => { const n = own.filter((task) => task.difficulty === level).length; return make("td", { class: "num", style: n ? "background:color-mix(in srgb, var(--accent) " + Math.min(34, 4 + 2 * n) + "%, transparent)" : "" }, n ? String(n) : make("span", { class: "faint" }, "·")); }), make("td", { class: "num" }, String(own.length))); });
  return list.length ? table(["family", ...levels.map((level) => ({ words: level || "–", kind: "num" })), { words: "all", kind: "num" }], rows) : make("p", { class: "quiet" }, "No task is listed.");
}

function rejectedOf(found) {
  const row = (each) => make("tr", {}, make("td", {}, each.example ? make("details", {}, make("summary", {}, capital(each.reason)), make("p", { class: "quiet small" }, "“" + each.example + "”")) : capital(each.reason)), make("td", { class: "num" }, number(each.num)));
  return found.rejections.length ? [table(["a draft was rejected because", { words: "drafts", kind: "num" }], found.rejections.map(row), { id: "rejected" }), found.num_reasons > found.rejections.length ? make("p", { class: "note" }, "The first " + found.rejections.length + " of " + whole(found.num_reasons) + " reasons.") : ""] : make("p", { id: "rejected", class: "quiet" }, "No draft was rejected.");
}

function tasksOf(found, settings, name) {
  const fit = found.tasks.filter((task) => (!settings.split || task.split === settings.split) && (!settings.level || task.difficulty === settings.level) && (!settings.tool || task.tools.includes(settings.tool)) && (task.question + " " + task.tools.join(" ") + " " + task.answer + " " + task.id).toLowerCase().includes((settings.text || "").toLowerCase())), isAll = settings.rows === "all";
  const splits = [...new Set(found.tasks.map((task) => task.split))].filter(Boolean);
  return make("div", {}, make("form", { class: "filters", onsubmit: (event) => event.preventDefault() }, searchField({ id: "filter-task", placeholder: "Find in questions, tools, answers", "aria-label": "find tasks", value: settings.text || "", oninput: later((value) => go({ text: value })) }),
    splits.length > 1 ? choice("split", [["", "all"], ...splits.map((split) => [split, split])], settings.split || "", (split) => go({ split })) : "", choice("difficulty", [["", "any"], ...DIFFICULTIES.map((level) => [level, level])], settings.level || "", (level) => go({ level })), make("span", { class: "faint small", id: "total", role: "status" }, plural(fit.length, "task"))),
  make("div", { id: "explored-tasks" }, fit.slice(0, isAll ? fit.length : SHOWN_TASKS).map((task) => taskOf_(task, name))), !isAll && fit.length > SHOWN_TASKS ? make("p", {}, make("a", { class: "link", id: "all-rows", href: moved({ rows: "all" }) }, "show the other " + whole(fit.length - SHOWN_TASKS))) : "", fit.length ? "" : make("p", { class: "quiet" }, "No task fits."));
}

function taskOf_(task, name) {
  const chain = make("span", { class: "chain mono small" }, task.tools.map((tool, i) => [i ? make("i", {}, "→") : "", make("span", {}, tool)]));
  return lazy("task " + task.id, [make("span", {}, task.question), make("span", { class: "val", title: task.answer }, task.answer), chain, make("span", { class: "quiet small" }, task.split, " ", make("span", { class: "faint" }, task.difficulty))], async () => {
    const found = await ask("plan", { name, split: task.split, task: task.id }).catch((error) => ({ missing: error.message }));
    return found.missing ? [make("p", { class: "note" }, "Its plan cannot be shown: " + found.missing + ".")] : [make("p", { class: "small quiet" }, "The plan that was executed in a fresh session and gave this answer:"), ...demonstrationOf(found).flat(2).filter(Boolean), make("p", {}, "Answer ", make("b", {}, task.answer)), make("details", { class: "more" }, make("summary", {}, "truth"), longText(found.truth))];
  }, { kind: "task" });
}
