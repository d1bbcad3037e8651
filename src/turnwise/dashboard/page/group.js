// A group member by member: a table of what came out, and below it what they did, from the turn on where they part.

import { ask } from "./api.js";
import { badge, brief, cells, figure, isFinished, make, number, seconds, table, toneOf } from "./dom.js";
import { moved } from "./place.js";
import { nameOf } from "./source.js";
import { checksOf, endOf, MARKS, opening, turnOf, userOf } from "./turn.js";

export async function groupView(run, settings) {
  const asked = { run, id: settings.id };
  const [members, found] = await Promise.all([ask("group", asked), ask("trajectory", asked)]);
  const numCommon = members.length > 1 ? commonTurns(members) : 0, sets = byAnswer(members);
  return make("section", { class: "conversation" }, make("p", { class: "note" }, make("a", { id: "back", href: moved({ group: "", turn: "" }) }, "‹ back to the episode"), " (Escape)"), make("h2", {}, "A group, member by member"),
    make("p", { class: "note" }, "Every try at one task, " + (found.source === "train" ? "in training step " + found.step : nameOf(found.source)) + ": what they did differently is what the rewards tell apart." + (members.length < found.num_members ? " " + members.length + " of its " + found.num_members + " members are shown." : "")),
    opening(found.task), memberTable(sets.flat(), numCommon), commonOf(members, numCommon, found.num_members), sets.map((set) => answeredAlike(set, members, numCommon)));
}

function commonTurns(members) {
  const least = Math.min(...members.map((member) => member.turns.length));
  for (let place = 0; place < least; place += 1) if (new Set(members.map((member) => doneIn(member.turns[place]))).size > 1) return place;
  return least;
}

// What tells one turn from another: all that was said, called and returned, not how long it took.
function doneIn(turn) {
  return JSON.stringify([turn.user, turn.text, turn.reasoning, turn.error, turn.calls.map((call) => [call.name, call.arguments, call.result && call.result.cause, call.result && call.result.content])]);
}

// Members with the same answer together, the most common answer first.
function byAnswer(members) {
  const sets = new Map();
  for (const member of members) {
    const key = member.answer_number ?? member.answer.toLowerCase();
    sets.set(key, [...(sets.get(key) || []), member]);
  }
  return [...sets.values()].sort((a, b) => b.length - a.length);
}

function episodeAt(member, turn, more = {}) {
  return moved({ group: "", id: member.id, turn: turn || "", ...more });
}

// The turn, counted from 1, in which a message was answered.
function answeredIn(member, message) {
  const places = member.turns.map((turn, place) => turn.message === message ? place + 1 : 0);
  return Math.max(0, ...places);
}

function memberTable(members, numCommon) {
  const checks = checkColumns(members);
  const row = (member) => {
    const to = (turn, content, more) => make("a", { class: "cell", href: episodeAt(member, turn, more) }, content), last = member.turns.length;
    return make("tr", { "data-member": member.id }, cells(to("", brief(member.episode, 40)), to(last, member.answer ? make("span", { class: "words" }, member.answer) : "no answer"),
      ...checks.map(({ message, read }) => to(answeredIn(member, message) || last, read(member))), to("", make("span", { class: toneOf(member.is_success) }, number(member.reward))),
      to("", number(member.advantage), { tokens: "advantage" }), to(Math.min(numCommon + 1, last), number(last)), to("", number(member.num_tokens), { tokens: "logprob" }),
      to(last, isFinished(member.stop) ? member.stop : badge(member.stop, "warn"))));
  };
  return table(["member", "answer", ...checks.map((check) => check.head), "reward", "advantage", "turns", "tokens", "stop"], members.map(row), { id: "matrix" });
}

// A column for each check; of a conversation, one for each message.
function checkColumns(members) {
  const num = Math.max(0, ...members.map((member) => member.verdicts.length));
  if (num > 1) return Array.from({ length: num }, (_, message) => ({ head: "message " + (message + 1), message, read: (member) => member.verdicts[message] ? checksOf(member.verdicts[message].checks) : "" }));
  const names = [...new Set(members.flatMap((member) => member.verdicts.flatMap((verdict) => Object.keys(verdict.checks))))];
  return names.map((name) => ({ head: "check: " + name, message: 0, read: (member) => { const [only] = member.verdicts; return only && name in only.checks ? make("span", { class: toneOf(only.checks[name]) }, MARKS.get(only.checks[name]).trim()) : ""; } }));
}

function commonOf(members, numCommon, numMembers) {
  if (members.length < 2) return "";
  const all = "all " + members.length + (members.length < numMembers ? " that are shown" : "");
  if (!numCommon) return make("p", { id: "common-turns", class: "note" }, "They part at the first turn.");
  const words = numCommon === 1 ? "The first turn is the same in " + all : "The first " + numCommon + " turns are the same in " + all;
  return make("details", { id: "common-turns" }, make("summary", {}, words), members[0].turns.slice(0, numCommon).map((turn, place) => [userOf(turn), turnOf(turn, place, { address: episodeAt(members[0], place + 1) })]));
}

function answeredAlike(set, members, numCommon) {
  const [{ answer }] = set;
  return make("div", { class: "alike" }, make("h3", {}, answer ? "answered “" + brief(answer, 80) + "”: " : "no answer: ", set.length + " of " + members.length),
    make("div", { class: "sides" }, set.map((member) => sideOf(member, numCommon, members.length > 1))));
}

function sideOf(member, numCommon, isMarked) {
  const parts = Object.entries(member.parts).map(([name, value]) => brief(name, 40) + " " + figure(value)).join(", ");
  const rest = member.turns.slice(numCommon).map((turn, at) => {
    const drawn = turnOf(turn, numCommon + at, { address: episodeAt(member, numCommon + at + 1), note: isMarked && !at ? "they part here" : "" });
    if (isMarked && !at) drawn.classList.add("parting");
    return [userOf(turn, member.verdicts), drawn];
  });
  return make("article", { class: "side" }, make("h3", {}, make("a", { href: episodeAt(member, "") }, brief(member.episode))),
    make("p", {}, badge("reward " + figure(member.reward), toneOf(member.is_success)), " ", badge(member.stop, isFinished(member.stop) ? "plain" : "warn")),
    make("p", { class: "note" }, parts + " · " + figure(member.num_tokens) + " tokens, ", seconds(member.seconds)),
    rest.length ? rest : make("p", { class: "note" }, "It ends with the turns that all have in common."), endOf(member));
}
