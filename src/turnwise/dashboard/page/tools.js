// How each server and tool did; every count leads to its calls or their episodes.

import { ask } from "./api.js";
import { rangeOf } from "./axes.js";
import { callsOf } from "./calls.js";
import { badge, brief, cells, make, number, percent, seconds, table } from "./dom.js";
import { panelsOf, settingsOf } from "./panels.js";
import { go, moved } from "./place.js";
import { nameOf } from "./source.js";

const PANELS = [
  { key: "tool-errors", title: "Errors", names: ["tools/error_rate"], note: "Share of calls that failed by the model's own doing." },
  { key: "tool-seconds", title: "Seconds a call", names: ["tools/seconds"], note: "Mean time from a call to its result." },
  { key: "tool-calls", title: "Calls an episode", names: ["tools/calls"], note: "How many calls an episode makes, on average." },
  { key: "breakers", title: "Breaker openings", names: ["breaker/openings/*"], note: "How often each server's breaker opened while a step was played; 0 is a server that answers." },
];

export async function tools(runs, settings) {
  const run = runs.find((each) => each.name === settings.run) || runs[0];
  const source = settings.source || "train";
  const asked = { run: run.name, source, ...rangeOf(settings) };
  const [found, choices, charts] = await Promise.all([ask("tools", asked), ask("choices", { run: run.name }), panelsOf(PANELS, runs, settings)]);
  const total = found.episode_seconds || 1, calls = await callsOf(run, settings, source, found);
  const episodes = (tool, error) => moved({ run: run.name, tool: tool.tool, error, source }, "trajectories");
  const rows = found.tools.map((tool) => make("tr", { "data-tool": tool.tool }, cells(
    tool.server ? brief(tool.server) : make("span", { class: "note" }, "none: made up"), make("a", { class: "of-tool", href: moved({ tool: tool.tool, server: "", error: "", offset: "" }) }, brief(tool.tool)),
    countedLink(tool.num_calls, episodes(tool, "")), errorsOf(tool, episodes), seconds(tool.p50), seconds(tool.p95), seconds(tool.p99),
    countedLink(tool.num_retries, moved({ tool: tool.tool, server: "", error: "retried", offset: "" })), countedLink(tool.num_refused, episodes(tool, "breaker_open")), percent(tool.seconds / total))));
  return make("section", {}, make("h2", {}, "Tools"),
    make("label", {}, "episodes of ", make("select", { id: "source", onchange: (event) => go({ source: event.target.value }) },
      choices.source.map((each) => make("option", { value: each.value, selected: each.value === source }, nameOf(each.value) + " (" + each.num + ")")))),
    found.note ? make("p", { class: "warn" }, found.note) : "",
    make("p", { id: "waiting" }, "Episodes spent ", percent(found.waiting_share), " of their time waiting on tools: ", seconds(found.tool_seconds), " of ",
      seconds(found.episode_seconds), ", over ", number(found.num_episodes), " episodes."),
    rows.length ? table(["server", "tool", "calls", "errors by class", "p50", "p95", "p99", "retries", "refused by breaker", "share of episodes' time"], rows, { id: "tools" })
      : make("p", {}, "No tool was called."),
    make("p", { class: "note" }, "p95: nineteen of twenty calls took no longer. Retries are made where a call can be made again without harm. A number leads to its episodes, a tool's name to its failed calls below."),
    calls, serversOf(found.servers), settingsOf(settings), charts);
}

function serversOf(servers) {
  if (!servers.length) return "";
  const ofServer = (each, error) => moved({ tool: "", server: each.server, error, offset: "" });
  const rows = servers.map((each) => make("tr", { "data-server": each.server }, cells(each.server || "–", number(each.num_calls), seconds(each.p50), seconds(each.p95),
    seconds(each.p99), breakerOf(each), number(each.num_openings), number(each.num_steps_open), 
    countedLink(each.num_refused, ofServer(each, "breaker_open")), countedLink(each.num_infra, ofServer(each, "infra")))));
  return make("div", {}, make("h3", {}, "Servers"), table(["server", "calls", "p50", "p95", "p99", "breaker", "times opened", "steps it ended open", "calls refused", "calls lost to infrastructure"], rows, { id: "servers" }),
    make("p", { class: "note" }, "A breaker opens after several failures of the server itself in a row, refuses calls for a while, then lets one try; closed is as it should be."));
}

function breakerOf(each) {
  if (each.is_open === null) return make("span", { class: "note" }, "not logged");
  return [badge(each.is_open ? "open" : "closed", each.is_open ? "bad" : "good"), " ", make("small", {}, "at step " + each.step)];
}

function errorsOf(tool, episodes) {
  const wrong = Object.entries(tool.causes).filter(([cause]) => cause !== "ok");
  return wrong.length ? wrong.map(([cause, num]) => [make("a", { class: "badge bad", href: episodes(tool, cause) }, cause + " " + num), " "]) : number(0);
}

// A count that leads to what it counts.
function countedLink(num, address) {
  return num ? make("a", { href: address }, number(num)) : number(num);
}
