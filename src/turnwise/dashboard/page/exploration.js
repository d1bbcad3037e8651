// What `turnwise explore` found when it wrote the tasks: which tools it reached, why not, and which drafts it rejected.

import { badge, brief, cells, figure, make, number, percent, seconds, table } from "./dom.js";

const REACHED = { "in tasks": "good", "answered, in no task": "warn", "not reached": "bad" };

export function explorationOf(found) {
  const { figures } = found;
  return make("details", { id: "exploration" }, make("summary", {}, "What the exploration found: tools reached and not, and why drafts were rejected"), summed(figures),
    found.servers.filter((server) => server.why_not).map((server) => make("p", { class: "bad" }, brief(server.server, 60) + " was not explored to the end: " + server.why_not)),
    found.tools.length ? [make("h3", {}, "Tools"), make("p", { class: "note" }, "Tools that no task uses come first, with the reason."), toolsFound(found)] : "",
    make("h3", {}, "Rejected drafts"), found.rejections.length ? rejected(found) : make("p", {}, "No draft was rejected."));
}

function summed(figures) {
  if (!figures) return "";
  const drafts = figures.num_tasks + figures.num_rejected;
  return make("p", {}, number(figures.num_reached), " of ", number(figures.num_tools), " tools answered, ", number(figures.num_tools_in_tasks), " are in tasks; ", number(figures.num_tasks), " of ", number(drafts), " drafts became tasks",
    drafts ? [" (", percent(figures.num_tasks / drafts), ")"] : "", "; ", number(figures.num_calls), " calls in ", seconds(figures.seconds), figures.was_interrupted ? make("span", { class: "warn" }, "; it was interrupted") : "", ".");
}

function toolsFound(found) {
  const rows = found.tools.map((tool) => make("tr", { "data-tool": tool.name }, cells(brief(tool.server, 60), brief(tool.name, 60), badge(tool.reach, REACHED[tool.reach] || "plain"),
    number(tool.num_calls), number(tool.num_answers), number(tool.num_tasks), tool.reason)));
  return [table(["server", "tool", "reached", "calls", "answered", "tasks", "why no task uses it"], rows, { id: "tools-found" }), moreThan(rows.length, found.num_tools, "tools")];
}

function rejected(found) {
  const total = found.rejections.reduce((sum, each) => sum + each.num, 0);
  const rows = found.rejections.map((each) => make("tr", {}, cells(each.reason, number(each.num), percent(each.num / (total || 1)), each.example || make("span", { class: "note" }, "no example kept"))));
  return [table(["why", "drafts", "share", "an example"], rows, { id: "rejected" }), moreThan(rows.length, found.num_reasons, "reasons")];
}

function moreThan(shown, num, words) {
  return shown < num ? make("p", { class: "note" }, "The first " + figure(shown) + " of " + figure(num) + " " + words + "; the report has all.") : "";
}
