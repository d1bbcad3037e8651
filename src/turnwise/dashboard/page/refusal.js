// What the model wrote and where it is wrong: a completion that the parser refused, arguments that the schema refused.

import { badge, longText, make, readable } from "./dom.js";
import { jsonOf } from "./json_view.js";

const REFUSALS = { bad_json: "the call is not valid JSON", unclosed: "something was not closed", truncated: "cut off at the length limit", bad_call: "not a call", arguments_not_object: "the arguments are not an object",
  faked_response: "it wrote a tool's reply itself", call_in_thought: "the call is inside a thought", empty: "nothing was written" };
const WRITTEN_AROUND = 1500;

// A malformed completion: the parser's complaint, and what was written with the place marked.
export function malformedOf(error) {
  const { kind, message, written, place } = error;
  const head = [badge("✗ not a call, the model's fault", "fault"), " ", badge(kind.replaceAll("_", " ")), " ", make("b", {}, REFUSALS[kind] || ""), longText(message, "fault")];
  if (written === null || written === undefined) return make("div", { class: "malformed" }, head, make("p", { class: "note" }, "What was written is kept as token ids, and the model's tokenizer is not on this machine."));
  return make("div", { class: "malformed" }, head, make("p", { class: "note" }, "Written by the model" + (place === null ? ":" : "; " + lineAt(written, place) + ":")),
    place === null ? longText(written, "written") : markedAt(written, place));
}

function lineAt(text, place) {
  const before = text.slice(0, place).split("\n");
  return place >= text.length ? "it stops at the end" : "the complaint is about line " + before.length + ", character " + (before[before.length - 1].length + 1);
}

// The text around a place, which is marked up to the end of its word or tag; all of the text when asked for.
function markedAt(text, place) {
  const end = Math.min(text.length, place + (/^(?:<[^<>\s]{1,20}>|[\p{L}\p{N}_]{1,40}|[\s\S])/u.exec(text.slice(place, place + 80)) || [""])[0].length);
  const body = make("pre", { class: "text written", dir: "ltr" });
  const show = (from, to) => body.replaceChildren(from ? "… " : "", readable(text.slice(from, place)), make("mark", { class: "wrong" }, text.slice(place, end) || "⟨end⟩"), readable(text.slice(end, to)), to < text.length ? " …" : "");
  const from = Math.max(0, place - WRITTEN_AROUND), to = Math.min(text.length, end + WRITTEN_AROUND);
  show(from, to);
  if (!from && to === text.length) return body;
  const more = make("button", { type: "button", class: "more", onclick: () => { show(0, text.length); more.remove(); } }, "show all " + text.length.toLocaleString("en-US") + " characters");
  return make("div", {}, body, more);
}

// The arguments of a call; of a call that the schema refused, those that its error names are marked.
export function argumentsOf(call) {
  const named = call.result && call.result.cause === "bad_arguments" ? namedIn(call) : [];
  return named.length ? markedText(call.arguments, named.map(({ start, end }) => [start, end]), "arguments") : longText(call.arguments, "arguments");
}

// The error of a call that the schema refused, with the names of its arguments marked.
export function refusedOf(call) {
  const text = call.result.content, start = saidFrom(text);
  const hits = namedIn(call).flatMap(({ key }) => [...text.slice(start).matchAll(naming(key))].map((hit) => [start + hit.index + hit[1].length, start + hit.index + hit[1].length + key.length]));
  return hits.length ? markedText(text, hits, "result") : longText(text, "result");
}

// The innermost arguments whose names are in the error.
function namedIn(call) {
  const whole = jsonOf(call.arguments), text = call.result.content.slice(saidFrom(call.result.content));
  const within = (node) => (node.entries || []).flatMap((entry) => {
    const inner = within(entry.value);
    return inner.length ? inner : naming(entry.key).test(text) ? [entry] : [];
  }).concat((node.items || []).flatMap(within));
  return whole ? within(whole) : [];
}

// After the tool's name, which may be an argument's name too.
function saidFrom(text) {
  const head = /bad arguments for [^:]{1,200}: /.exec(text);
  return head ? head.index + head[0].length : 0;
}

// A name as an error has it: in quotes, or as part of a path before a colon.
function naming(key) {
  const plain = key.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  return new RegExp("('|\"|^|\\.)" + plain + "(?='|\"|:|\\.)", "g");
}

function markedText(text, places, kind) {
  const body = make("pre", { class: "text " + kind, dir: "ltr" });
  let at = 0;
  for (const [start, end] of [...places].sort((a, b) => a[0] - b[0])) {
    if (start < at) continue;
    body.append(readable(text.slice(at, start)), make("mark", { class: "wrong" }, text.slice(start, end)));
    at = end;
  }
  body.append(readable(text.slice(at)));
  return body;
}
