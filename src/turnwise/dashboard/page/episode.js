// One episode as a conversation: the verdict first, then what was asked, done and said; its tokens, group and the same task elsewhere.

import { ask } from "./api.js";
import { winLoss } from "./charts.js";
import { answer, badge, brief, cells, draw, isFinished, isKnown, longText, make, num, number, percent, plural, seconds, signed, table, took, toneOf, words } from "./dom.js";
import { groupView } from "./group.js";
import { listAddress, moved } from "./place.js";
import { playedFor } from "./source.js";
import { chooserOf, pointedOf } from "./strip.js";
import { checksOf, endOf, inventedIn, opening, readAfter, turnOf, userOf, writtenIn } from "./turn.js";

const AT_ONCE = 12; // turns that are drawn before they come near

export async function conversation(runs, settings) {
  const run = settings.run || runs[0].name;
  if (settings.group) return groupView(run, settings);
  const asked = { run, id: settings.id }, [found, tokens] = await Promise.all([ask("trajectory", asked), ask("tokens", asked)]);
  const pointed = make("dl", { class: "facts", id: "pointed", "aria-live": "polite" }, make("dt", { class: "faint" }, "point at one, or walk with the arrow keys")), point = (token) => { const shown = document.getElementById("pointed") || pointed; shown.replaceChildren(...make("div", {}, pointedOf(token)).children); };
  const view = make("div", { class: "conversation", "data-episode": found.id }, headOf(found, run), make("section", { class: "two talk-with-side" }, make("div", {}, chooserOf(settings, tokens), make("div", { class: "talk" }, opening(found.task, found.verdicts), turnsOf(found, tokens, settings, point), endOf(found))), sideOf(found, run, tokens, pointed)));
  if (settings.turn) setTimeout(() => { const turn = document.getElementById("turn-" + settings.turn); if (turn) { turn.classList.add("at"); turn.scrollIntoView({ block: "start" }); } }); // once it is part of the page
  return view;
}

// Turn by turn, with all text before each; of a long episode those further down are drawn when they come near.
function turnsOf(found, tokens, settings, point) {
  let known = found.task.prompt.map((message) => message.content).join("\n");
  const rest = found.turns.map((_, at) => found.turns.slice(at + 1).map(writtenIn).join("\n")), last = found.turns.length - 1;
  return found.turns.map((turn, at) => {
    known += "\n" + (turn.user || "");
    const given = { tokens, known, later: rest[at].slice(0, 200000), isLast: at === last || (found.turns[at + 1] || {}).message !== turn.message, verdict: found.verdicts[turn.message] || null, settings, point };
    known += "\n" + turn.calls.map((call) => call.result ? call.result.content : "").join("\n");
    const build = () => [userOf(turn, found.verdicts), turnOf(turn, at, given)];
    return at < AT_ONCE || Number(settings.turn) - 1 >= at ? build() : whenNear(build, at);
  });
}

function whenNear(build, at) {
  const holder = make("div", { class: "far", "data-key": "far " + at }, "turn " + (at + 1));
  new IntersectionObserver((seen, observer) => {
    if (!seen.some((each) => each.isIntersecting)) return;
    observer.disconnect();
    holder.replaceWith(...make("div", {}, build()).childNodes);
  }, { rootMargin: "1200px" }).observe(holder);
  return holder;
}

function headOf(found, run) {
  const at = found.group.findIndex((member) => member.id === found.id), to = (member) => moved({ run, id: member.id, turn: "" }), previous = found.group[at - 1], next = found.group[at + 1], said = oddWords(found), failed = failedCalls(found);
  const mark = found.is_success === null ? "" : make("span", { class: found.is_success ? "ok" : "fault", "aria-hidden": "true" }, found.is_success ? "✓ " : "✗ ");
  const eyebrow = [make("a", { id: "back", href: listAddress() }, "Episodes"), " / ", make("a", { href: moved({ run, id: found.id, group: 1, turn: "" }) }, playedFor(found.source, found.step) + ", " + brief(found.task.id, 80)), " / ", "try " + (at + 1) + " of " + found.num_members, " ", previous ? make("a", { id: "previous-try", class: "pill", href: to(previous) }, "‹") : "", next ? make("a", { id: "next-try", class: "pill", href: to(next), "aria-label": "next try (key: j)" }, "›") : ""];
  const lead = [said, failed, !said && !failed.length ? found.turns.some((turn) => turn.calls.length) ? "All calls succeeded. " : "" : " ", plural(found.turns.length, "turn") + ", " + plural(found.turns.reduce((sum, turn) => sum + turn.num_tokens, 0), "token") + ", " + took(found.seconds) + ". ", [words(found.task.family), found.task.difficulty].filter((each) => each && each !== "–").join(", ")];
  return make("div", {}, answer([mark, found.heading], { eyebrow, lead, tone: "of-episode" }), found.verdicts.length ? make("ul", { id: "verdicts", class: found.verdicts.length === 1 ? "sr" : "small" }, found.verdicts.map((each, place) => verdictOf(each, place, found.verdicts.length === 1))) : "", isFinished(found.stop) ? "" : make("p", {}, badge(words(found.stop), "fault")));
}

// One line a message: what was expected, what was said, and which checks hold.
function verdictOf(each, place, isOne) {
  return make("li", {}, isOne ? "" : "message " + (place + 1) + ": ", each.expected === null ? "" : "expected " + brief(each.expected, 160) + ", ", each.said ? "said " + brief(each.said, 160) : "no answer", Object.keys(each.checks).length ? ": " : "", checksOf(each.checks));
}

// The first number that the model wrote and that stands in no earlier text.
function oddWords(found) {
  let known = found.task.prompt.map((message) => message.content).join("\n");
  for (const [at, turn] of found.turns.entries()) {
    known += "\n" + (turn.user || "");
    const [odd] = turn.is_given ? [] : inventedIn(writtenIn(turn), known);
    if (odd) return ["In turn " + (at + 1) + " it wrote ", make("b", {}, brief(odd, 40)), ", a number that stands in no earlier text. "];
    known += "\n" + readAfter(turn);
  }
  return "";
}

function failedCalls(found) {
  return found.turns.flatMap((turn, at) => [...turn.calls.filter((call) => call.result && call.result.cause !== "ok").map((call) => [at, brief(call.name, 60) + " failed (" + call.result.cause.replaceAll("_", " ") + "): " + (call.result.fault === "infra" ? "infrastructure's fault" : "the model's fault")]), ...(turn.error ? [[at, "a call could not be read (" + turn.error.kind.replaceAll("_", " ") + "): the model's fault"]] : [])]).slice(0, 3).map(([at, said]) => "In turn " + (at + 1) + " " + said + ". ");
}

function sideOf(found, run, tokens, pointed) {
  const rewards = [...Object.entries(found.reward.parts), ...Object.entries(found.scores).map(([name, value]) => ["environment: " + name, value])], checks = found.verdicts.length === 1 ? Object.entries(found.verdicts[0].checks) : [];
  return make("aside", { class: "side" },
    make("section", { id: "group" }, make("h3", {}, "Its group"), winLoss(found.group.map((member) => ({ ...member, answer: "" })), { here: found.id, link: (member) => moved({ run, id: member.id, turn: "" }) }), make("p", {}, make("a", { class: "link tap", id: "side", href: moved({ run, id: found.id, group: 1, turn: "" }) }, "where they part"), make("span", { class: "faint" }, "  " + found.group.filter((member) => member.is_success).length + " of " + found.num_members + " succeeded"))),
    found.messages.length ? make("section", { id: "messages" }, make("h3", {}, "Messages"), make("p", {}, found.messages.map((held, at) => [badge((at + 1) + (held ? " ✓" : " ✗"), toneOf(held)), " "]), found.messages.filter(Boolean).length + " of " + found.messages.length + " as asked")) : "",
    make("section", {}, make("h3", {}, "Checks and reward"), make("dl", { class: "facts" }, checks.map(([name, holds]) => [make("dt", {}, brief(name, 40)), make("dd", { class: toneOf(holds) }, holds === null ? "? not decided" : holds ? "✓ holds" : "✗ does not hold")]), make("dt", {}, "reward"), make("dd", {}, number(found.reward.total, { id: "reward" })), rewards.map(([name, value]) => [make("dt", { class: "faint" }, brief(name, 60)), make("dd", { class: "faint" }, num(value))]), isKnown(creditOf(tokens)) ? [make("dt", {}, "credit of its tokens"), make("dd", {}, (creditOf(tokens) > 0 ? "+" : "") + signed(Number(creditOf(tokens).toPrecision(4))))] : "")),
    make("section", {}, make("h3", {}, "The token pointed at"), pointed), make("section", {}, make("h3", {}, "Time"), timeline(found.turns)), elsewhere(found, run), details(found), make("section", { class: "desk" }, make("p", { class: "faint small" }, make("kbd", {}, "j"), " ", make("kbd", {}, "k"), " next try  ", make("kbd", {}, "Esc"), " up")));
}

function creditOf(tokens) {
  if (!tokens.is_traced) return tokens.advantage;
  const known = tokens.turns.flatMap((turn) => turn.update.advantages).filter(isKnown);
  return known.length ? known.reduce((a, b) => a + b, 0) / known.length : null;
}

// What the episode waited for, turn by turn: the engine, then the tools; outlined where a call failed.
function timeline(turns) {
  const total = turns.reduce((sum, turn) => sum + turn.engine_seconds + turn.tool_seconds, 0), wide = 320, [engine, tools] = ["engine_seconds", "tool_seconds"].map((key) => turns.reduce((sum, turn) => sum + turn[key], 0));
  const picture = draw("svg", { viewBox: "0 0 " + wide + " 18", class: "timeline", role: "img", "aria-label": "sampling " + took(engine) + ", waiting on tools " + took(tools) });
  let at = 0;
  const bar = (length, kind, said, isBad) => { picture.append(draw("rect", { class: kind + (isBad ? " bad" : ""), x: at / (total || 1) * wide, y: 3, width: Math.max(length / (total || 1) * wide - 1, 0.8), height: 10 }, draw("title", {}, said))); at += length; };
  turns.slice(0, 200).forEach((turn, place) => {
    bar(turn.engine_seconds, "engine", "turn " + (place + 1) + ": sampling " + took(turn.engine_seconds));
    if (turn.calls.length) bar(turn.tool_seconds, "tool", "turn " + (place + 1) + ": " + turn.calls.map((call) => brief(call.name) + " " + (call.result ? took(call.result.seconds) + ", " + call.result.cause : "no result")).join("; ").slice(0, 500), turn.calls.some((call) => !call.result || call.result.cause !== "ok"));
  });
  return make("div", {}, picture, make("p", { class: "small quiet" }, make("span", { class: "acc" }, "sampling " + took(engine)), ", ", make("span", { class: "hot" }, "tools " + took(tools))));
}

function elsewhere(found, run) {
  const rows = found.elsewhere.map((each) => make("tr", {}, cells(make("a", { class: "link", href: moved({ run, id: each.id, turn: "" }) }, playedFor(each.source, each.step)), number(each.reward), percent(each.success), number(each.num))));
  return make("section", { id: "elsewhere" }, make("h3", {}, "The same task elsewhere"), table(["played for", { words: "reward", kind: "num" }, { words: "success", kind: "num" }, { words: "tries", kind: "num" }], rows));
}

function details(found) {
  return make("details", { id: "details", class: "more" }, make("summary", {}, "what was asked, offered and probed"), longText(JSON.stringify(found.task.truth, null, 1)), make("p", { class: "note" }, brief("tools: " + found.tools.map((tool) => tool.name).join(", "), 4000)),
    found.probes.length ? longText(JSON.stringify(found.probes, null, 1)) : "", found.losses.length ? longText(JSON.stringify(found.losses, null, 1)) : "", make("p", { class: "note" }, "episode " + brief(found.episode) + ", seed " + found.seed + ", queued ", seconds(found.queue_seconds)));
}
