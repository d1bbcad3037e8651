// One turn of an episode: what the user said, what the model wrote, its calls and their results.

import { badge, brief, figure, longText, make, seconds, toneOf } from "./dom.js";
import { resultOf } from "./json_view.js";
import { argumentsOf, malformedOf, refusedOf } from "./refusal.js";
import { tokensOf } from "./tokens.js";

export const MARKS = new Map([[true, " ✓"], [false, " ✗"], [null, " ?"]]);

// The checks of one message with their marks.
export function checksOf(checks) {
  return Object.entries(checks).map(([name, holds], at) => [at ? ", " : "", make("span", { class: toneOf(holds) }, name + MARKS.get(holds))]);
}

// What was asked at first; of a conversation, the last of it is its first message.
export function opening(task, verdicts = []) {
  const last = task.prompt.map((message) => message.role).lastIndexOf("user");
  return task.prompt.map((message, place) => make("article", { class: "turn prompt" }, make("h3", {}, message.role, place === last ? messageOf(verdicts, 0) : ""), longText(message.content)));
}

// What the user said before a turn.
export function userOf(turn, verdicts = []) {
  return turn.user ? make("article", { class: "turn prompt" }, make("h3", {}, "user", messageOf(verdicts, turn.message)), longText(turn.user)) : "";
}

// Which message of the conversation it is, and whether it was answered as asked.
function messageOf(verdicts, number) {
  if (verdicts.length < 2 || !verdicts[number]) return "";
  return make("small", { class: "message" }, ", message " + (number + 1) + " of " + verdicts.length + ": ", checksOf(verdicts[number].checks));
}

// What the environment said when it ended the episode; the model did not read it.
export function endOf(found) {
  return found.last_reply ? make("article", { class: "turn prompt last-reply" }, make("h3", {}, "environment, at the end"), longText(found.last_reply)) : "";
}

// `address`: where the turn's number leads, if anywhere.
export function turnOf(turn, place, { tokens = null, kind = "", address = null, note = "" } = {}) {
  const name = "turn " + (place + 1);
  const parts = [make("h3", {}, address ? make("a", { href: address }, name) : name, " ", note ? [badge(note, "warn"), " "] : "",
    turn.is_given ? make("small", {}, "given from the task's plan: not sampled, not trained on")
      : make("small", {}, figure(turn.num_tokens) + " tokens sampled in ", seconds(turn.engine_seconds), ", policy version " + turn.policy_version))];
  if (tokens && kind) parts.push(tokensOf(tokens.turns[place], kind, tokens.advantage));
  if (turn.reasoning) parts.push(make("details", {}, make("summary", {}, "reasoning"), longText(turn.reasoning, "thought")));
  if (turn.text) parts.push(longText(turn.text, "said"));
  if (turn.error) parts.push(malformedOf(turn.error));
  for (const call of turn.calls) parts.push(callOf(call));
  return make("article", { class: "turn" }, parts);
}

function callOf(call) {
  const result = call.result;
  const head = make("p", { class: "call" }, make("b", {}, brief(call.name)), " ", result ? [badge(result.cause, result.cause === "ok" ? "good" : "bad"),
    result.fault === "none" ? "" : [" ", badge(result.fault === "model" ? "the model's fault" : "infrastructure's fault", "warn")], " ", seconds(result.seconds),
    result.num_retries ? " · " + result.num_retries + " retries" : "", result.is_replayed ? " · replayed" : "", result.repairs.length ? " · mended " + result.repairs.join(", ") : ""] : badge("no result", "bad"));
  return make("div", { class: "calling" }, head, argumentsOf(call), result ? (result.cause === "bad_arguments" ? refusedOf(call) : resultOf(result.content)) : "");
}
