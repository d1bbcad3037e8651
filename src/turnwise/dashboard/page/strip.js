// A turn's tokens: a bar a token, the higher the less likely it was when it was sampled, its colour the sign of its credit.
// It opens to the tokens themselves, coloured by how hard the update pushed them.

import { brief, draw, isKnown, lazy, make, num, pct, plural, signed } from "./dom.js";
import { go, place } from "./place.js";

const MANY = 3000, BAR = 7, HIGH = 26, SHADES_OF_BARS = 5, MAX_BARS = 600;
const CLIPS = { l: "clipped low", h: "clipped high", d: "clipped dual", x: "dropped before the loss" };
const OLD_NAMES = { logprob: "surprise", advantage: "credit", mask: "trained" }; // as older addresses have them
export const COLOURINGS = ["push", "credit", "surprise", "ratio", "trained"];

export function colouringOf(settings) {
  const asked = OLD_NAMES[settings.tokens] || settings.tokens;
  return COLOURINGS.includes(asked) ? asked : "";
}

const surprise = (logprob) => Math.min(1, -(logprob || 0) / 4);

// What one token was to the update; of an episode whose tokens were not kept, the advantage its group gives.
function partOf(turn, i, advantage) {
  const { update } = turn;
  if (!update) return { credit: advantage };
  return { old: update.olds[i], now: update.news[i], ratio: update.ratios[i], credit: update.advantages[i], clip: update.clips[i] };
}

// How hard the update pushes the token's logit: nothing where it was clipped or dropped.
function pushOf({ credit, clip }, logprob) {
  return isKnown(credit) ? (CLIPS[clip] ? 0 : credit * (1 - Math.exp(logprob))) : null;
}

export function stripOf(turn, at, tokens, settings, point) {
  const num_ = turn.ids.length, mode = colouringOf(settings);
  if (!num_) return "";
  const width = Math.max(1, Math.ceil(num_ / MAX_BARS)), bars = Math.ceil(num_ / width), paths = new Map();
  for (let i = 0; i < bars; i += 1) { // of several tokens in one bar, the least likely
    const own = Array.from({ length: Math.min(width, num_ - i * width) }, (_, j) => i * width + j), worst = own.reduce((best, j) => turn.logprobs[j] < turn.logprobs[best] ? j : best);
    const odd = surprise(turn.logprobs[worst]), tall = 2 + odd * (HIGH - 3), { credit } = partOf(turn, worst, tokens.advantage), key = (isKnown(credit) && credit !== 0 ? (credit > 0 ? "plus" : "minus") : "null") + Math.round(odd * (SHADES_OF_BARS - 1));
    paths.set(key, (paths.get(key) || "") + "M" + i * BAR + " " + HIGH + "V" + (HIGH - tall).toFixed(1) + "h" + (BAR - 1) + "V" + HIGH + "Z");
  }
  const least = turn.logprobs.indexOf(turn.logprobs.reduce((a, b) => Math.min(a, b), 0)), pieceOf = (i) => turn.pieces ? turn.pieces[i].trim() || "space" : String(turn.ids[i]);
  const unsure = turn.logprobs.map((logprob, i) => [logprob, i]).filter(([logprob]) => logprob < -1).sort((a, b) => a[0] - b[0]).slice(0, 2).map(([, i]) => "“" + brief(pieceOf(i), 24) + "”");
  const said = plural(num_, "token") + " · " + (unsure.length ? "unsure at " + unsure.join(" and ") : "sure of each");
  const svg = draw("svg", { viewBox: "0 0 " + bars * BAR + " " + HIGH, width: Math.min(bars * BAR, 760), height: HIGH, preserveAspectRatio: "none", role: "img", "aria-label": plural(num_, "token") + ", the least likely: " + brief(pieceOf(Math.max(0, least)), 40) },
    [...paths].map(([key, d]) => draw("path", { d, fill: key.startsWith("null") ? "var(--none)" : "rgb(var(--" + key.slice(0, -1) + "))", opacity: 0.35 + 0.65 * Number(key.slice(-1)) / (SHADES_OF_BARS - 1) })));
  return lazy("tokens-" + (at + 1), [svg, make("span", {}, said)], () => tokensOf(turn, colouringOf(place().settings) || "push", tokens, point), { isOpen: Boolean(mode), kind: "sky" });
}

function tokensOf(turn, mode, tokens, point) {
  const line = make("div", { class: "toks", dir: "ltr", role: "group", "aria-label": "tokens: arrow keys walk over them", onkeydown: (event) => walkTokens(event, line) });
  const add = (ids, pieces, logprobs, isOwn) => {
    line.append(...ids.slice(0, MANY).map((id, i) => tokenOf(turn, { id, i, piece: pieces ? pieces[i] : null, logprob: logprobs ? logprobs[i] : null, isOwn }, mode, tokens, point)));
    if (ids.length > MANY) line.append(make("span", { class: "note" }, " … " + (ids.length - MANY) + " more tokens "));
  };
  if (mode === "trained") add(turn.prompt_ids, turn.prompt_pieces, null, false);
  add(turn.ids, turn.pieces, turn.logprobs, true);
  const [first] = line.querySelectorAll(".tok");
  if (first) first.tabIndex = 0;
  return [line];
}

function walkTokens(event, line) {
  const all = [...line.querySelectorAll(".tok")], now = all.indexOf(document.activeElement), to = { ArrowRight: now + 1, ArrowLeft: now - 1, Home: 0, End: all.length - 1 }[event.key];
  if (to === undefined || now < 0) return;
  event.preventDefault();
  all[now].tabIndex = -1;
  const next = all[Math.min(Math.max(to, 0), all.length - 1)];
  next.tabIndex = 0;
  next.focus();
}

function tokenOf(turn, token, mode, tokens, point) {
  const { id, i, piece, logprob, isOwn } = token, own = isOwn ? partOf(turn, i, tokens.advantage) : {}, show = () => point && point({ ...token, ...own, push: isOwn ? pushOf(own, logprob) : null });
  const isStopped = Boolean(CLIPS[own.clip]) && ["ratio", "push", "credit"].includes(mode);
  return make("button", { type: "button", class: "tok " + shadeOf(mode, logprob, isOwn, own) + (isStopped ? " stopped" : ""), style: "background:" + shadeBack(mode, logprob, isOwn, own), tabindex: -1, "data-id": id, "aria-label": piece !== null && !piece.trim() ? "space" : null, onfocus: show, onmouseenter: show, onclick: show },
    piece === null ? id + " " : piece.replaceAll("\n", "⏎\n"));
}

function signedValue(mode, logprob, own) {
  if (mode === "push") { const push = pushOf(own, logprob); return isKnown(push) ? 2.4 * push : null; }
  if (mode === "credit") return own.credit;
  return mode === "ratio" && isKnown(own.ratio) ? 3 * Math.log(Math.max(own.ratio, 1e-4)) : null;
}

function shadeOf(mode, logprob, isOwn, own) {
  if (mode === "trained") return isOwn && own.clip !== "x" ? "own" : "off";
  if (mode === "surprise") return "surprise";
  const value = signedValue(mode, logprob, own);
  return value > 0 ? "plus" : value < 0 ? "minus" : "null";
}

function shadeBack(mode, logprob, isOwn, own) {
  if (mode === "surprise") return logprob === null ? "none" : "rgb(var(--amber) / " + (0.75 * surprise(logprob)).toFixed(2) + ")";
  const value = signedValue(mode, logprob, own);
  return isKnown(value) && value !== 0 ? "rgb(var(--" + (value > 0 ? "plus" : "minus") + ") / " + (0.06 + 0.6 * Math.min(1, Math.abs(value))).toFixed(2) + ")" : "none";
}

// The pointed token, in one fixed place.
export function pointedOf({ id, piece, logprob, credit, push, ratio, old, now, clip, isOwn }) {
  const rows = [["token", piece === null ? "" : "“" + piece.replaceAll("\n", "⏎") + "”"], ["id", id], ["probability", isKnown(logprob) ? pct(Math.exp(logprob)) : "–"], ["log-prob as sampled", isKnown(logprob) ? signed(logprob) : "–"], ["credit", isKnown(credit) ? signed(credit) : isOwn ? "not known" : "not trained"], ["push", isKnown(push) ? signed(num(push).replace("−", "-")) : "–"]];
  if (isKnown(ratio)) rows.push(["ratio", signed(ratio)], ["log-prob before the update", signed(old)], ["in its last pass", isKnown(now) ? signed(now) : "–"]);
  rows.push(["loss mask", isOwn && clip !== "x" ? "1" : "0"], ...(CLIPS[clip] ? [["in the loss", CLIPS[clip]]] : []));
  return rows.map(([name, value]) => [make("dt", {}, name), make("dd", {}, String(value))]);
}

// What the colours stand for, and the choice of them.
export function chooserOf(settings, tokens) {
  const now = colouringOf(settings), ratios = tokens.is_traced ? tokens.turns.flatMap((turn) => turn.update.ratios).filter(isKnown) : [], hasRatios = ratios.some((ratio) => ratio !== 1);
  const modes = COLOURINGS.filter((mode) => mode !== "ratio" || hasRatios || now === "ratio");
  return make("div", { class: "filters", id: "chooser" }, make("span", { class: "small faint" }, "tokens by"), make("span", { class: "seg", role: "group", "aria-label": "colour tokens by" }, modes.map((mode) => make("button", { type: "button", "data-value": mode, "aria-pressed": String(mode === now), onclick: () => go({ tokens: mode === now ? "" : mode, turn: "" }) }, mode))),
    make("span", { class: "small faint", id: "legend" }, legendOf(now, tokens, ratios), tokens.has_pieces ? "" : " The model's tokenizer is not on this machine, so ids stand for tokens."));
}

function legendOf(mode, tokens, ratios) {
  const unknown = "Not known: " + tokens.missing + ".", isKnownCredit = tokens.is_traced || tokens.advantage !== null;
  if (mode === "surprise") return "the darker, the less likely when it was sampled";
  if (mode === "trained") return "grey: read, not trained on";
  if (mode === "ratio") {
    const stopped = tokens.is_traced ? tokens.turns.flatMap((turn) => [...turn.update.clips]).filter((sign) => sign !== ".").length : 0, ends = ratios.reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [Infinity, -Infinity]);
    return !tokens.is_traced ? unknown : ratios.every((ratio) => ratio === 1) ? "Every ratio is 1: the update took one optimizer step, so nothing had moved when the tokens were gone over." : "new over old probability: blue above 1, orange below, from " + ends.map(num).join(" to ") + "; underlined: clipped or dropped, " + stopped + " of " + plural(ratios.length, "token");
  }
  if (!isKnownCredit) return mode ? unknown : "a bar is a token: the higher, the less likely";
  const said = tokens.is_traced ? "as the update had it" : "credit " + num(tokens.advantage) + ", " + tokens.advantage_note;
  if (mode === "credit") return "blue: made likelier · orange: made less likely; " + said;
  return mode === "push" ? "credit × (1 − probability): how hard the update pushes a token up (blue) or down (orange), 0 where clipped; " + said : "a bar is a token: the higher, the less likely; its colour is the sign of its credit";
}
