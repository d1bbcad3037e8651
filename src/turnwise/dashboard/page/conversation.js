// One episode as a conversation, with its time line, its tokens, its group and the same task elsewhere.

import { ask } from "./api.js";
import { badge, brief, cells, draw, figure, isFinished, longText, make, number, percent, seconds, table, toneOf, verdict } from "./dom.js";
import { groupView } from "./group.js";
import { go, listAddress, moved } from "./place.js";
import { nameOf, playedFor } from "./source.js";
import { COLOURINGS, legend, tokenScale } from "./tokens.js";
import { checksOf, endOf, opening, turnOf, userOf } from "./turn.js";

export async function conversation(runs, settings) {
  const run = settings.run || runs[0].name;
  if (settings.group) return groupView(run, settings);
  const asked = { run, id: settings.id };
  const [found, tokens] = await Promise.all([ask("trajectory", asked), settings.tokens ? ask("tokens", asked) : null]);
  const turns = found.turns.map((turn, place) => turnOf(turn, place, { tokens, kind: settings.tokens }));
  turns.forEach((turn, place) => { turn.id = "turn-" + (place + 1); }); // in a group there are several of each
  const section = make("section", { class: "conversation" },
    make("p", { class: "note" }, make("a", { id: "back", href: listAddress() }, "‹ back to the list"), " (Escape)"), make("h2", {}, brief(found.task.id)), heading(found), verdictsOf(found), make("div", { class: "columns" },
      make("div", {}, chooser(settings, tokens), timeline(found.turns), opening(found.task, found.verdicts), turns.map((turn, place) => [userOf(found.turns[place], found.verdicts), turn]), endOf(found)),
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
  const given = found.turns.filter((turn) => turn.is_given).length;
  return make("p", {}, given ? badge("started after " + given + " turns of the plan: no success of the task", "plain") : verdict(found.is_success), " ", badge(found.stop, isFinished(found.stop) ? "plain" : "warn"),
    " " + [brief(found.task.family), found.task.difficulty, where, found.turns.length + " turns"].filter(Boolean).join(" · ") + " · ", seconds(found.seconds));
}

// One line a message: what was expected, what was said, and which checks hold.
function verdictsOf(found) {
  const isOne = found.verdicts.length === 1;
  return make("ul", { id: "verdicts" }, found.verdicts.map((each, place) => {
    const words = each.said ? "said " + brief(each.said, 160) : "no answer";
    return make("li", {}, isOne ? "" : "message " + (place + 1) + ": ", each.expected === null ? "" : "expected " + brief(each.expected, 160) + ", ", words, Object.keys(each.checks).length ? ": " : "", checksOf(each.checks));
  }));
}

function chooser(settings, tokens) {
  return make("p", { class: "settings" }, make("label", {}, "show ", make("select", { id: "tokens", onchange: (event) => go({ tokens: event.target.value, turn: "" }) },
    Object.entries(COLOURINGS).map(([value, words]) => make("option", { value, selected: (settings.tokens || "") === value }, words)))),
  tokens ? make("span", { class: "note" }, legend(settings.tokens, tokens)) : "", tokens ? tokenScale(settings.tokens, tokens) : "");
}

function messagesOf(found) {
  if (!found.messages.length) return "";
  const marks = found.messages.map((held, place) => [badge(String(place + 1), toneOf(held)), " "]);
  return make("div", { id: "messages" }, make("h3", {}, "Messages"), make("p", {}, marks, found.messages.filter(Boolean).length + " of " + found.messages.length + " as asked"));
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
    make("a", { class: "chip " + toneOf(member.is_success) + (member.id === found.id ? " here" : ""), href: moved({ run, id: member.id, turn: "" }), title: brief(member.episode) + ", " + member.stop }, figure(member.reward)))),
  make("a", { id: "side", href: moved({ run, id: found.id, group: 1, turn: "" }) }, "compare its members"));
}

function elsewhere(found, run) {
  const rows = found.elsewhere.map((each) => make("tr", {}, cells(make("a", { href: moved({ run, id: each.id, turn: "" }) }, playedFor(each.source, each.step)), number(each.reward), percent(each.success), number(each.num))));
  return make("div", { id: "elsewhere" }, make("h3", {}, "The same task elsewhere"), table(["played for", "reward", "success", "episodes"], rows));
}

function details(found) {
  return make("details", { id: "details" }, make("summary", {}, "what was asked, offered and probed"),
    longText(JSON.stringify(found.task.truth, null, 1)), make("p", { class: "note" }, brief("tools: " + found.tools.map((tool) => tool.name).join(", "), 4000)),
    found.probes.length ? longText(JSON.stringify(found.probes, null, 1)) : "", found.losses.length ? longText(JSON.stringify(found.losses, null, 1)) : "",
    make("p", { class: "note" }, "episode " + brief(found.episode) + ", seed " + found.seed + ", queued ", seconds(found.queue_seconds)));
}

