// How each server and tool did; every count leads to its calls or their episodes.

import { ask } from "./api.js";
import { rangeOf } from "./axes.js";
import { callsOf } from "./calls.js";
import { answer, badge, brief, cells, lazy, make, number, part, pct, percent, seconds, table } from "./dom.js";
import { TOOLS } from "./figures.js";
import { panelsOf, viewMenu } from "./panels.js";
import { moved } from "./place.js";
import { pickRun } from "./shell.js";
import { nameOf } from "./source.js";

export async function tools([run], settings) {
  const source = settings.source || "train", asked = { run: run.name, source, ...rangeOf(settings) };
  const [found, choices] = await Promise.all([ask("tools", asked), ask("choices", { run: run.name })]);
  const total = found.episode_seconds || 1, calls = await callsOf(run, settings, source, found);
  const episodes = (tool, error) => moved({ run: run.name, tool: tool.tool, error, source, list: "tries" }, "trajectories");
  const rows = found.tools.map((tool) => make("tr", { "data-tool": tool.tool }, cells(
    tool.server ? brief(tool.server) : make("span", { class: "note" }, "none: made up"), make("a", { class: "of-tool", href: moved({ tool: tool.tool, server: "", error: "", offset: "" }) }, make("b", {}, brief(tool.tool))),
    countedLink(tool.num_calls, episodes(tool, "")), errorsOf(tool, episodes), seconds(tool.p50), seconds(tool.p95), seconds(tool.p99),
    countedLink(tool.num_retries, moved({ tool: tool.tool, server: "", error: "retried", offset: "" })), countedLink(tool.num_refused, episodes(tool, "breaker_open")), percent(tool.seconds / total))));
  const heads = ["server", "tool", ["calls"], "errors by class", ["p50"], ["p95"], ["p99"], ["retries"], ["refused by breaker"], ["share of time"]].map((head) => Array.isArray(head) ? { words: head[0], kind: "num" } : head);
  return make("div", {}, answer(found.heading, { lead: make("span", { id: "waiting" }, "Episodes waited " + pct(found.waiting_share) + " of their time for tools: ", seconds(found.tool_seconds), " of ", seconds(found.episode_seconds), ", over ", number(found.num_episodes), " episodes.") }),
    make("section", {}, make("div", { class: "filters" }, pickRun("source", "episodes of", choices.source.map((each) => [each.value, nameOf(each.value) + " (" + each.num + ")"]), source, "source"), viewMenu(settings)), found.note ? make("p", { class: "fault" }, found.note) : "",
      rows.length ? table(heads, rows, { id: "tools" }) : make("p", { id: "tools", class: "quiet" }, "No tool was called."),
      make("p", { class: "note" }, "p95: nineteen of twenty calls took no longer. Retries are made where a call can be made again without harm. A number leads to its episodes, a tool's name to its failed calls below.")),
    calls, serversOf(found.servers), make("section", {}, lazy("tool-figures", "Charts of tools over steps", async () => [await panelsOf(TOOLS, [run], settings)], { isOpen: true })));
}

function serversOf(servers) {
  if (!servers.length) return "";
  const ofServer = (each, error) => moved({ tool: "", server: each.server, error, offset: "" });
  const rows = servers.map((each) => make("tr", { "data-server": each.server }, cells(each.server || "–", number(each.num_calls), seconds(each.p50), seconds(each.p95),
    seconds(each.p99), breakerOf(each), number(each.num_openings), number(each.num_steps_open), 
    countedLink(each.num_refused, ofServer(each, "breaker_open")), countedLink(each.num_infra, ofServer(each, "infra")))));
  return part("Servers", "A breaker opens after several failures of the server itself in a row, refuses calls for a while, then lets one try; closed is as it should be.", table(["server", "calls", "p50", "p95", "p99", "breaker", "times opened", "steps it ended open", "calls refused", "calls lost to infrastructure"], rows, { id: "servers" }));
}

function breakerOf(each) {
  if (each.is_open === null) return make("span", { class: "note" }, "not logged");
  return [badge(each.is_open ? "open" : "closed", each.is_open ? "crit" : "ok"), " ", make("small", {}, "at step " + each.step)];
}

function errorsOf(tool, episodes) {
  const wrong = Object.entries(tool.causes).filter(([cause]) => cause !== "ok");
  return wrong.length ? wrong.map(([cause, count]) => [make("a", { class: "tag " + (tool.faults[cause] === "infra" ? "infra" : "fault"), href: episodes(tool, cause) }, cause.replaceAll("_", " ") + " " + count), " "]) : number(0);
}

// A count that leads to what it counts.
function countedLink(count, address) {
  return count ? make("a", { class: "link", href: address }, number(count)) : number(count);
}
