// One turn of an episode: what the user said, what the model wrote, its calls and their results, and its tokens as a strip.

import { badge, brief, longText, make, plural, seconds, toneOf } from "./dom.js";
import { jsonOf, resultOf } from "./json_view.js";
import { argumentsOf, malformedOf, refusedOf } from "./refusal.js";
import { stripOf } from "./strip.js";

export const MARKS = new Map([[true, " ✓"], [false, " ✗"], [null, " ?"]]);
const LONG_NUMBER = /\d[\d.]{2,}\d|\d{3,}/g;

// The checks of one message with their marks.
export function checksOf(checks) {
  return Object.entries(checks).map(([name, holds], at) => [at ? ", " : "", make("span", { class: toneOf(holds) }, brief(name, 60) + MARKS.get(holds))]);
}

// Numbers in what the model wrote that stand in no earlier text of the episode. A fact about the text: it may still be right.
export function inventedIn(text, known) {
  return [...new Set(String(text).slice(0, 20000).match(LONG_NUMBER) || [])].filter((found) => !known.includes(found) && !known.includes(String(Number(found))));
}

// The text with the given parts marked.
export function markedWith(text, wanted, kind, title) {
  if (!wanted.length) return [text];
  const pattern = new RegExp("(" + wanted.map((each) => each.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|") + ")");
  return text.split(pattern).map((part, i) => i % 2 ? make("mark", { class: kind, title }, part) : part);
}

function entry(who, how, ...what) {
  return [make("div", { class: "who" }, make("b", {}, who), how ? [" ", how] : ""), make("div", { class: "what" }, what)];
}

// What was asked at first; of a conversation, the last of it is its first message.
export function opening(task, verdicts = []) {
  const last = task.prompt.map((message) => message.role).lastIndexOf("user");
  return task.prompt.map((message, at) => entry(message.role === "user" ? "asked" : message.role, "", make("div", { class: "turn prompt" }, at === last ? messageOf(verdicts, 0) : "", longText(message.content, "said"))));
}

// What the user said before a turn.
export function userOf(turn, verdicts = []) {
  return turn.user ? entry("user", "", make("div", { class: "turn prompt" }, messageOf(verdicts, turn.message), longText(turn.user, "said"))) : "";
}

// Which message of the conversation it is, and whether it was answered as asked.
function messageOf(verdicts, number) {
  if (verdicts.length < 2 || !verdicts[number]) return "";
  return make("p", { class: "message small" }, "message " + (number + 1) + " of " + verdicts.length + ": ", checksOf(verdicts[number].checks));
}

// What the environment said when it ended the episode; the model did not read it.
export function endOf(found) {
  return found.last_reply ? entry("environment", "at the end", make("div", { class: "turn prompt last-reply" }, longText(found.last_reply, "said"))) : "";
}

// known: all text before this turn; later: what comes after it, to see which values were used; verdict: of the message it answers.
export function turnOf(turn, at, { tokens = null, known = "", later = "", isLast = false, verdict = null, settings = {}, point = null }) {
  const odd = (text) => inventedIn(text, known), note = "in no earlier text of this episode", isWrong = isLast && verdict && verdict.checks.answer === false;
  const said = turn.text ? saidOf(turn, odd(turn.text), isLast && !turn.calls.length, isWrong, verdict, note) : "";
  const parts = [turn.reasoning ? make("details", { id: "reasoning-" + at }, make("summary", {}, "reasoning"), longText(turn.reasoning, "thought")) : "", said, turn.error ? malformedOf(turn.error) : "", turn.calls.map((call) => callOf(call, odd(call.arguments), note, later)),
    turn.is_given ? make("p", { class: "note" }, "given from the task's plan: not sampled, not trained on") : tokens ? stripOf(tokens.turns[at], at, tokens, settings, point) : ""];
  const how = [seconds(turn.engine_seconds), " sampling", turn.calls.length ? [make("br"), " ", seconds(turn.tool_seconds), " tools"] : ""];
  return [make("div", { class: "who" }, make("b", {}, isLast && !turn.calls.length ? "said" : "turn " + (at + 1)), " ", turn.is_given ? "" : how, make("span", { class: "version" }, make("br"), "policy " + turn.policy_version)), make("article", { class: "what turn", id: "turn-" + (at + 1) }, parts)];
}

function saidOf(turn, odd, isAnswer, isWrong, verdict, note) {
  if (turn.text.length > 600) return odd.length ? make("pre", { class: "text said long" }, markedWith(turn.text.slice(0, 20000), odd.slice(0, 40), "invented", note), turn.text.length > 20000 ? longText(turn.text.slice(20000)) : "") : longText(turn.text, "said");
  const rest = isAnswer && verdict && verdict.expected !== null ? make("span", { class: "small quiet" }, " " + (verdict.checks.answer ? "as expected" : "expected " + brief(verdict.expected, 120))) : "";
  return make("p", { class: "said" + (isAnswer && turn.text.length < 120 ? " answered" : "") + (isWrong ? " wrong" : "") }, markedWith(turn.text, odd, "invented", note), rest);
}

function callOf(call, odd, note, later) {
  const { result } = call, isBad = !result || result.cause !== "ok", fault = result && result.fault === "infra" ? "infra" : "fault";
  const whose = !result ? "no result" : result.cause.replaceAll("_", " ") + (result.fault === "infra" ? ", infrastructure" : result.fault === "model" ? ", the model's fault" : "");
  const more = result ? [result.num_retries ? plural(result.num_retries, "retry", "retries") : "", result.is_replayed ? "replayed" : "", result.repairs.length ? "mended " + result.repairs.join(", ") : ""].filter(Boolean).join(" · ") : "";
  const body = odd.length && !(result && result.cause === "bad_arguments") && call.arguments.length < 4000 ? make("pre", { class: "text arguments" }, markedWith(call.arguments, odd, "invented", note)) : argumentsOf(call);
  return make("div", { class: "calling" + (isBad ? " bad " + fault : ""), "data-cause": result ? result.cause : "none" }, make("div", { class: "give" }, make("b", {}, brief(call.name)), shortArguments(call, odd, note) || body, make("span", { class: "end" }, isBad ? badge("✗ " + whose, fault) : "✓", " ", result ? seconds(result.seconds) : "", more ? " · " + more : "")),
    result ? make("div", { class: "get" }, result.cause === "bad_arguments" ? refusedOf(call) : valuesOf(result.content, later) || resultOf(result.content)) : "");
}

// The names and values of an object without anything nested in it, each value as it was written; null for any other text.
export function pairsOf(text) {
  const found = /^\s*\{/.test(text) ? jsonOf(text) : null;
  if (!found || !found.entries || found.entries.some(({ value }) => value.leaf === undefined)) return null;
  return found.entries.map(({ key, value }) => [key, value.leaf.startsWith('"') ? JSON.parse(value.leaf) : value.leaf]);
}

// Arguments of one line as names and values; others as they were written.
function shortArguments(call, odd, note) {
  const pairs = (call.result && call.result.cause === "bad_arguments") || call.arguments.length > 240 ? null : pairsOf(call.arguments);
  return pairs && make("code", { class: "arguments", title: call.arguments }, pairs.length ? pairs.map(([key, value], i) => [i ? "  " : "", make("i", {}, brief(key, 40) + " "), markedWith(value, odd, "invented", note)]) : "no arguments");
}

// A small result as names and values, those that were used later underlined; null for any other.
function valuesOf(content, later) {
  const pairs = content.length > 900 ? null : pairsOf(content);
  if (!pairs || !pairs.length || pairs.length > 16) return null;
  const isUsed = (value) => value.length > 2 && later.includes(value);
  return make("div", { class: "json kv", title: content }, pairs.map(([key, value]) => make("span", {}, make("i", {}, key), make("span", { class: "leaf" + (isUsed(value) ? " used" : ""), title: isUsed(value) ? "used later in this episode" : null }, value))));
}

// What is compared with the texts before a turn, and what a turn wrote.
export function writtenIn(turn) {
  return [turn.text, ...turn.calls.map((call) => call.arguments), (turn.error && turn.error.written) || ""].join("\n");
}

export function readAfter(turn) {
  return turn.user + "\n" + turn.calls.map((call) => call.result ? call.result.content : "").join("\n");
}

