// One episode as a conversation, with its time line, its tokens, its group and the same task elsewhere.

import { ask } from "./api.js";
import { badge, brief, cells, draw, figure, isFinished, longText, make, number, seconds, table, toneOf, verdict } from "./dom.js";
import { go, listAddress, moved } from "./place.js";
import { nameOf, playedFor } from "./source.js";
import { COLOURINGS, legend, tokensOf } from "./tokens.js";

export async function conversation(runs, settings) {
  const run = settings.run || runs[0].name;
  if (settings.group) return sideBySide(run, settings);
  const asked = { run, id: settings.id };
  const [found, tokens] = await Promise.all([ask("trajectory", asked), settings.tokens ? ask("tokens", asked) : null]);
  const turns = found.turns.map((turn, place) => turnOf(turn, place, tokens, settings.tokens));
  turns.forEach((turn, place) => { turn.id = "turn-" + (place + 1); }); // side by side there are several of each
  const section = make("section", { class: "conversation" },
    make("p", { class: "note" }, make("a", { id: "back", href: listAddress() }, "‹ back to the list"), " (Escape)"), make("h2", {}, brief(found.task.id)), heading(found), verdictsOf(found), make("div", { class: "columns" },
      make("div", {}, chooser(settings, tokens), timeline(found.turns), opening(found.task), turns.map((turn, place) => [userOf(found.turns[place]), turn]), endOf(found)),
      make("aside", {}, rewards(found), messagesOf(found), groupOf(found, run), elsewhere(found, run), details(found))));
  const wanted = turns[Number(settings.turn) - 1];
  if (wanted) {
    wanted.classList.add("at");
    setTimeout(() => wanted.scrollIntoView({ block: "start" })); // once it is part of the page
  }
  return section;
}

function heading(found) {
  const where = found.source === "train" ? "training, step " + found.step : nameOf(found.source);
  return make("p", {}, verdict(found.is_success), " ", badge(found.stop, isFinished(found.stop) ? "plain" : "warn"),
    " " + [brief(found.task.family), found.task.difficulty, where, found.turns.length + " turns"].filter(Boolean).join(" · ") + " · ", seconds(found.seconds));
}

const MARKS = new Map([[true, " ✓"], [false, " ✗"], [null, " ?"]]);

// One line a message: what was expected, what was said, and which checks hold.
function verdictsOf(found) {
  const isOne = found.verdicts.length === 1;
  return make("ul", { id: "verdicts" }, found.verdicts.map((each, place) => {
    const checks = Object.entries(each.checks), words = each.said ? "said " + brief(each.said, 160) : "no answer";
    return make("li", {}, isOne ? "" : "message " + (place + 1) + ": ", each.expected === null ? "" : "expected " + brief(each.expected, 160) + ", ", words, checks.length ? ": " : "",
      checks.map(([name, holds], at) => [at ? ", " : "", make("span", { class: toneOf(holds) }, name + MARKS.get(holds))]));
  }));
}

function chooser(settings, tokens) {
  return make("p", { class: "settings" }, make("label", {}, "show ", make("select", { id: "tokens", onchange: (event) => go({ tokens: event.target.value }) },
    Object.entries(COLOURINGS).map(([value, words]) => make("option", { value, selected: (settings.tokens || "") === value }, words)))),
  tokens ? make("span", { class: "note" }, legend(settings.tokens, tokens)) : "");
}

function opening(task) {
  return task.prompt.map((message) => make("article", { class: "turn prompt" }, make("h3", {}, message.role), longText(message.content)));
}

// What the user said before a turn.
function userOf(turn) {
  return turn.user ? make("article", { class: "turn prompt" }, make("h3", {}, "user"), longText(turn.user)) : "";
}

// What the environment said when it ended the episode; the model did not read it.
function endOf(found) {
  return found.last_reply ? make("article", { class: "turn prompt last-reply" }, make("h3", {}, "environment, at the end"), longText(found.last_reply)) : "";
}

function messagesOf(found) {
  if (!found.messages.length) return "";
  const marks = found.messages.map((held, place) => [badge(String(place + 1), toneOf(held)), " "]);
  return make("div", { id: "messages" }, make("h3", {}, "Messages"), make("p", {}, marks, found.messages.filter(Boolean).length + " of " + found.messages.length + " as asked"));
}

function turnOf(turn, place, tokens, kind) {
  const parts = [make("h3", {}, "turn " + (place + 1) + " ", make("small", {}, figure(turn.num_tokens) + " tokens sampled in ", seconds(turn.engine_seconds), ", policy version " + turn.policy_version))];
  if (tokens && kind) parts.push(tokensOf(tokens.turns[place], kind, tokens.advantage));
  if (turn.reasoning) parts.push(make("details", {}, make("summary", {}, "reasoning"), longText(turn.reasoning, "thought")));
  if (turn.text) parts.push(longText(turn.text, "said"));
  if (turn.error) parts.push(make("div", {}, badge(turn.error.kind, "bad"), longText(turn.error.message, "fault")));
  for (const call of turn.calls) parts.push(callOf(call));
  return make("article", { class: "turn" }, parts);
}

function callOf(call) {
  const result = call.result;
  const head = make("p", { class: "call" }, make("b", {}, brief(call.name)), " ", result ? [badge(result.cause, result.cause === "ok" ? "good" : "bad"),
    result.fault === "none" ? "" : [" ", badge(result.fault === "model" ? "the model's fault" : "infrastructure's fault", "warn")], " ", seconds(result.seconds),
    result.num_retries ? " · " + result.num_retries + " retries" : "", result.is_replayed ? " · replayed" : "", result.repairs.length ? " · mended " + result.repairs.join(", ") : ""] : badge("no result", "bad"));
  return make("div", { class: "calling" }, head, longText(call.arguments, "arguments"), result ? longText(result.content, "result") : "");
}

// What the episode waited for, turn by turn: the engine, then the tools.
function timeline(turns) {
  const total = turns.reduce((sum, turn) => sum + turn.engine_seconds + turn.tool_seconds, 0) || 1;
  const wide = document.documentElement.clientWidth < 760 ? 360 : 700, picture = draw("svg", { viewBox: "0 0 " + wide + " 34", class: "timeline", role: "img", "aria-label": "time line: the engine's part of each turn, then its tools'" });
  let at = 0;
  const bar = (length, kind, words, isBad) => {
    picture.append(draw("rect", { class: kind + (isBad ? " bad" : ""), x: at / total * wide, y: 4, width: Math.max(length / total * wide - 1, 0.8), height: 16 }, draw("title", {}, words)));
    at += length;
  };
  turns.forEach((turn, place) => {
    picture.append(draw("text", { class: "axis", x: at / total * wide, y: 32 }, String(place + 1)));
    bar(turn.engine_seconds, "engine", "turn " + (place + 1) + ": sampling " + figure(turn.engine_seconds) + " s");
    if (turn.calls.length) bar(turn.tool_seconds, "tool", "turn " + (place + 1) + ": " + turn.calls.map((call) => brief(call.name) + " " + (call.result ? figure(call.result.seconds) + " s, " + call.result.cause : "no result")).join("; ").slice(0, 500),
      turn.calls.some((call) => !call.result || call.result.cause !== "ok"));
  });
  return make("figure", { class: "time" }, picture, make("figcaption", { class: "note" }, "Time line of ", seconds(total), ": sampling, then waiting on tools; striped red where a call failed."));
}

function rewards(found) {
  const rows = Object.entries(found.reward.parts).map(([name, value]) => make("tr", {}, cells(brief(name), number(value))));
  const scored = Object.entries(found.scores).map(([name, value]) => make("tr", {}, cells(brief(name), number(value))));
  return make("div", {}, make("h3", {}, "Reward ", number(found.reward.total, { id: "reward" })), table(["part", "before weighing"], rows, { id: "parts" }),
    scored.length ? table(["environment", "score"], scored, { id: "scores" }) : "");
}

function groupOf(found, run) {
  return make("div", { id: "group" }, make("h3", {}, "Its group"), make("p", { class: "chips" }, found.group.map((member) =>
    make("a", { class: "chip " + toneOf(member.is_success) + (member.id === found.id ? " here" : ""), href: moved({ run, id: member.id }), title: brief(member.episode) + ", " + member.stop }, figure(member.reward)))),
  make("a", { id: "side", href: moved({ run, id: found.id, group: 1 }) }, "side by side"));
}

function elsewhere(found, run) {
  const rows = found.elsewhere.map((each) => make("tr", {}, cells(make("a", { href: moved({ run, id: each.id }) }, playedFor(each.source, each.step)), number(each.reward), number(each.success), number(each.num))));
  return make("div", { id: "elsewhere" }, make("h3", {}, "The same task elsewhere"), table(["played for", "reward", "success", "episodes"], rows));
}

function details(found) {
  return make("details", { id: "details" }, make("summary", {}, "what was asked, offered and probed"),
    longText(JSON.stringify(found.task.truth, null, 1)), make("p", { class: "note" }, brief("tools: " + found.tools.map((tool) => tool.name).join(", "), 4000)),
    found.probes.length ? longText(JSON.stringify(found.probes, null, 1)) : "", found.losses.length ? longText(JSON.stringify(found.losses, null, 1)) : "",
    make("p", { class: "note" }, "episode " + brief(found.episode) + ", seed " + found.seed + ", queued ", seconds(found.queue_seconds)));
}

async function sideBySide(run, settings) {
  const asked = { run, id: settings.id };
  const [members, found] = await Promise.all([ask("group", asked), ask("trajectory", asked)]);
  return make("section", { class: "conversation" }, make("p", { class: "note" }, make("a", { id: "back", href: moved({ group: "" }) }, "‹ back to the episode"), " (Escape)"), make("h2", {}, "A group side by side"),
    make("p", { class: "note" }, "Every try at one task, " + (found.source === "train" ? "in training step " + found.step : nameOf(found.source)) + ": what they did differently is what the rewards tell apart."), opening(found.task),
    make("div", { class: "sides" }, members.map(sideOf)));
}

function sideOf(member) {
  const parts = Object.entries(member.parts).map(([name, value]) => brief(name, 40) + " " + figure(value)).join(", ");
  return make("article", { class: "side" }, make("h3", {}, make("a", { href: moved({ group: "", id: member.id }) }, brief(member.episode))),
    make("p", {}, badge("reward " + figure(member.reward), toneOf(member.is_success)), " ", badge(member.stop, isFinished(member.stop) ? "plain" : "warn")),
    make("p", { class: "note" }, parts + " · " + figure(member.num_tokens) + " tokens, ", seconds(member.seconds)),
    member.turns.map((turn, place) => [userOf(turn), turnOf(turn, place, null, "")]), endOf(member));
}
