// A group: every try at one task. Cells are merged while tries agree, so the table itself shows where they part.

import { ask } from "./api.js";
import { answer, badge, brief, isFinished, isKnown, make, num, part, pct, plural, signed, took, toneOf, words } from "./dom.js";
import { listAddress, moved } from "./place.js";
import { nameOf, playedFor } from "./source.js";
import { inventedIn, MARKS, markedWith, pairsOf, readAfter } from "./turn.js";

const MAX_TURNS = 12, MAX_CALLS = 6, MAX_TEXT = 300;

export async function groupView(run, settings) {
  const found = await ask("group", { run, id: settings.id }), { members, task } = found, question = [...task.prompt].reverse().find((message) => message.role === "user") || { content: "" };
  const sorted = inBranches(members, 0), depth = Math.min(MAX_TURNS, Math.max(0, ...members.map((member) => member.turns.length))), good = members.find((member) => member.is_success);
  const [judged] = members.map((member) => member.verdicts[0]).filter(Boolean), context = { run, sorted, depth, good, checks: checksOfGroup(members), asked: question.content };
  return make("div", { class: "conversation" }, answer(found.heading, { eyebrow: [make("a", { id: "back", href: listAddress() }, "Episodes"), " / ", playedFor(found.source, found.step), " / ", brief(task.id, 80), " · ", [words(task.family), task.difficulty].filter((each) => each && each !== "–").join(", ")],
    lead: ["“" + brief(question.content, 400) + "” ", judged && judged.expected !== null ? ["Expected ", make("b", {}, brief(judged.expected, 120)), ". "] : "", members.length < found.num_members ? members.length + " of its " + found.num_members + " tries are shown." : ""] }),
    make("section", { class: "desk" }, make("div", { class: "head" }, make("h2", {}, "What each try did"), make("p", {}, "A cell spans the tries that did the same. Marked: what differs from a try that succeeded."), make("span", { class: "faint small" }, make("kbd", {}, "j"), " ", make("kbd", {}, "k"), " choose, ", make("kbd", {}, "Enter"), " open")), treeOf(context)),
    make("section", { class: "phone" }, make("div", { class: "head" }, make("h2", {}, "Where each try left the others")), branchesOf(sorted, 0, context)),
    part("The same task elsewhere", "", make("p", { class: "quiet", id: "elsewhere" }, found.elsewhere.map((each, i) => [i ? " · " : "", make("a", { class: "link", href: moved({ run, id: each.id, turn: "", group: each.num > 1 ? 1 : "" }) }, each.source === "train" ? "training step " + each.step : nameOf(each.source)), ": " + pct(each.success) + " of " + plural(each.num, "try", "tries")]), ".")));
}

// What tells one turn from another: what was said and called, not what came back.
function doneIn(turn) {
  return JSON.stringify([turn.user, turn.text, turn.error && turn.error.written, turn.calls.map((call) => [call.name, call.arguments])]);
}

function parted(members, at) {
  const parts = new Map();
  for (const member of members) { const key = member.turns[at] ? doneIn(member.turns[at]) : "-"; parts.set(key, [...(parts.get(key) || []), member]); }
  const won = (list) => list.filter((member) => member.is_success).length;
  return [...parts.values()].sort((a, b) => b.length - a.length || won(b) - won(a) || b[0].turns.length - a[0].turns.length);
}

// In an order in which equal beginnings meet, the largest branch first, successes first.
function inBranches(members, at) {
  if (members.length < 2 || at > 80 || members.every((member) => !member.turns[at])) return [...members].sort((a, b) => Number(Boolean(b.is_success)) - Number(Boolean(a.is_success)));
  return parted(members, at).flatMap((own) => inBranches(own, at + 1));
}

function isSame(one, other, at) {
  return Boolean(one && other && one.turns[at] && other.turns[at]) && one.turns.slice(0, at + 1).every((turn, i) => doneIn(turn) === doneIn(other.turns[i]));
}

const lexed = (text) => text.match(/\d+(?:\.\d+)?|[A-Za-z_]+|\s+|[^\sA-Za-z_\d]/g) || [];

// The text with the part that differs from another text marked; both are compared piece by piece.
function differing(text, other) {
  if (other === null || other === undefined || other === text) return [text];
  const one = lexed(text), two = lexed(other);
  let start = 0, end = 0;
  while (start < Math.min(one.length, two.length) && one[start] === two[start]) start += 1;
  while (end < Math.min(one.length, two.length) - start && one[one.length - 1 - end] === two[two.length - 1 - end]) end += 1;
  return [one.slice(0, start).join(""), make("mark", { class: "diff" }, one.slice(start, one.length - end).join("") || " ends here"), one.slice(one.length - end).join("")];
}

function callText(call) {
  const pairs = pairsOf(call.arguments);
  return brief(pairs ? pairs.map(([, value]) => value).join(", ") : call.arguments, MAX_TEXT);
}

// What came back, in a line: the values that were used later, else the first two.
function backOf(call, later) {
  if (!call.result) return make("span", { class: "back small fault" }, "✗ no result");
  if (call.result.cause !== "ok") return make("span", { class: "back small " + (call.result.fault === "infra" ? "infra" : "fault") }, "✗ " + (call.result.fault === "infra" ? "infrastructure: " : "") + call.result.cause.replaceAll("_", " ") + ": " + brief(call.result.content.replace(/^error: /, ""), 120));
  const pairs = pairsOf(call.result.content);
  if (!pairs) return make("span", { class: "back small" }, "→ " + brief(call.result.content, 90));
  const isUsed = ([, value]) => value.length > 2 && later.includes(value), shown = (pairs.some(isUsed) ? pairs.filter(isUsed) : pairs).slice(0, 2);
  return make("span", { class: "back small" }, "→ ", shown.map((pair, i) => [i ? ", " : "", make("i", {}, brief(pair[0], 30) + " "), make("span", { class: isUsed(pair) ? "used" : null }, brief(pair[1], 60))]), pairs.length > shown.length ? make("i", {}, " and " + (pairs.length - shown.length) + " more") : "");
}

// What one turn did; marked: what differs from the same turn of a try that succeeded, and numbers that stand in no earlier text.
function actOf(member, at, own, { good, asked }) {
  const turn = member.turns[at], other = good && good !== member && good.turns[at] && doneIn(good.turns[at]) !== doneIn(turn) ? good.turns[at] : null, later = JSON.stringify(own.map((each) => each.turns.slice(at + 1).map((next) => [next.text, next.calls.map((call) => call.arguments)])));
  const known = asked + member.turns.slice(0, at).map(readAfter).join(""), marked = (text, like) => like === undefined ? markedWith(text, inventedIn(text, known), "invented", "in no earlier text of this episode") : differing(text, like);
  return [turn.user ? make("span", { class: "back small" }, "user: " + brief(turn.user, 120)) : "", turn.is_given ? make("span", { class: "faint small" }, "given from the plan") : "", turn.text ? make("span", { class: "said-in" }, marked(brief(turn.text, MAX_TEXT), other ? brief(other.text, MAX_TEXT) : undefined)) : "",
    turn.calls.slice(0, MAX_CALLS).map((call, i) => { const like = other && other.calls[i]; return make("div", {}, make("code", {}, make("b", {}, marked(brief(call.name, 60), like ? like.name : undefined)), " ", marked(callText(call), like ? callText(like) : undefined)), backOf(call, later)); }), turn.calls.length > MAX_CALLS ? make("span", { class: "faint small" }, "and " + plural(turn.calls.length - MAX_CALLS, "other call")) : "",
    turn.error ? make("div", {}, make("code", {}, brief(turn.error.written || "", MAX_TEXT)), make("span", { class: "back small fault" }, "✗ not a call: " + words(turn.error.kind))) : ""];
}

function checksOfGroup(members) {
  const num_ = Math.max(0, ...members.map((member) => member.verdicts.length));
  if (num_ > 1) return Array.from({ length: num_ }, (_, message) => ({ head: "message " + (message + 1), read: (member) => { const found = member.verdicts[message]; return found ? [Object.values(found.checks).every(Boolean), found] : [null, null]; } }));
  return [...new Set(members.flatMap((member) => member.verdicts.flatMap((verdict) => Object.keys(verdict.checks))))].map((name) => ({ head: name, read: (member) => { const [only] = member.verdicts; return only && name in only.checks ? [only.checks[name], only] : [undefined, null]; } }));
}

function episodeAt(run, member, turn) {
  return moved({ run, id: member.id, group: "", turn: turn || "", from_group: 1 });
}

function toneOfBranch(own) {
  const won = own.filter((member) => member.is_success).length;
  return won === own.length ? " won" : won ? "" : " lost";
}

function treeOf(context) {
  const { run, sorted, depth, checks } = context, ways = Array.from({ length: depth }, (_, at) => new Set(sorted.filter((member) => member.turns[at]).map((member) => JSON.stringify(member.turns.slice(0, at + 1).map(doneIn)))).size);
  const cell = (member, at, span) => {
    const own = sorted.filter((other) => isSame(other, member, at));
    return make("td", { class: "act" + toneOfBranch(own), rowspan: span > 1 ? span : null }, make("a", { class: "n", href: episodeAt(run, member, at + 1), "aria-label": "turn " + (at + 1) + " of try " + brief(member.episode, 60) }, own.length > 1 ? own.length + " tries" : "turn " + (at + 1)), actOf(member, at, own, context));
  };
  const rows = sorted.map((member, at) => {
    const acts = [];
    for (let turn = 0; turn < depth; turn += 1) {
      if (turn >= member.turns.length) { acts.push(make("td", { class: "act none" })); continue; }
      if (isSame(sorted[at - 1], member, turn)) continue;
      let span = 1;
      while (isSame(sorted[at + span], member, turn)) span += 1;
      acts.push(cell(member, turn, span));
    }
    return make("tr", { class: "go " + (member.is_success ? "won" : "lost"), "data-member": member.id, onclick: (event) => { if (!event.target.closest("a")) location.hash = episodeAt(run, member); } }, acts, outcomeOf(run, member, checks));
  });
  const heads = ["said", ...checks.map((check) => check.head)], figures = ["reward", "credit", "turns", "tokens"];
  return make("div", { class: "scroll" }, make("table", { class: "tree", id: "matrix" }, make("thead", {}, make("tr", {}, ways.map((n, at) => make("th", { scope: "col" }, "turn " + (at + 1), make("span", { class: "faint" }, n > 1 ? " · " + n + " ways" : " · all alike"))), heads.map((head) => make("th", { scope: "col" }, brief(head, 40))), figures.map((head) => make("th", { scope: "col", class: "num" }, head)))), make("tbody", {}, rows)));
}

function outcomeOf(run, member, checks) {
  const parts = Object.entries(member.parts).map(([name, value]) => brief(name, 40) + " " + num(value)).join(", ");
  return [make("td", { class: "end" }, make("a", { class: "to", href: episodeAt(run, member) }, make("b", { class: member.is_success ? "ok" : "" }, make("span", { class: "words" }, brief(member.answer || "no answer", 160)))), isFinished(member.stop) ? "" : [" ", badge(words(member.stop), "fault")], make("small", { class: "faint small" }, brief(member.episode, 40))),
    checks.map(({ head, read }) => { const [holds, verdict] = read(member); return make("td", { class: "end " + (holds === undefined ? "" : toneOf(holds)), title: verdict ? head + ": expected " + brief(verdict.expected ?? "–", 120) + ", said " + brief(verdict.said || "nothing", 120) : null }, holds === undefined ? "" : [(MARKS.get(holds) || " ?").trim(), make("span", { class: "sr" }, holds ? " holds" : " does not hold")]); }),
    make("td", { class: "num end", title: parts }, num(member.reward)), make("td", { class: "num end " + (member.advantage > 0 ? "plus-text" : member.advantage < 0 ? "minus-text" : "") }, make("a", { href: moved({ run, id: member.id, group: "", turn: "", tokens: "credit" }) }, isKnown(member.advantage) ? (member.advantage > 0 ? "+" : "") + signed(Number(member.advantage.toPrecision(4))) : "–")),
    make("td", { class: "num end quiet" }, String(member.turns.length)), make("td", { class: "num end quiet", title: took(member.seconds) }, num(member.num_tokens))];
}

// On a phone the same tree is a list of branches.
function branchesOf(members, at, context) {
  return make("ol", { class: "branch" }, parted(members, at).map((own) => {
    const [first] = own, turn = first.turns[at], isEnd = !turn || own.length === 1 || at >= MAX_TURNS;
    if (!turn) return own.map((member) => endOfBranch(member, context));
    return make("li", { class: toneOfBranch(own).trim() }, make("a", { class: "faint small", href: episodeAt(context.run, first, at + 1) }, "turn " + (at + 1) + (own.length > 1 ? ", " + own.length + " tries" : "")), actOf(first, at, own, context), isEnd ? (first.turns.length > at + 1 ? make("span", { class: "faint small" }, plural(first.turns.length - at - 1, "further turn")) : "") : "", isEnd ? make("ol", { class: "branch" }, own.map((member) => endOfBranch(member, context))) : branchesOf(own, at + 1, context));
  }));
}

function endOfBranch(member, { run }) {
  return make("li", { class: member.is_success ? "won" : "lost" }, make("a", { class: "tap", href: episodeAt(run, member) }, badge((member.is_success ? "✓ " : "✗ ") + brief(member.answer || "no answer", 80), toneOf(member.is_success)), " ", make("span", { class: "faint small" }, "reward " + num(member.reward) + ", " + plural(member.num_tokens, "token"))));
}

