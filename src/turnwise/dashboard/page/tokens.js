// Takes an episode's tokens, gives them coloured: by log-prob, by their part in the update, or by loss mask.

import { figure, make } from "./dom.js";

const MANY = 3000;
export const COLOURINGS = { "": "no tokens", logprob: "tokens by log-prob", advantage: "tokens by advantage", ratio: "tokens by ratio", mask: "tokens by loss mask" };
const CLIPS = { l: "clipped low", h: "clipped high", d: "clipped dual", x: "dropped before the loss" };

const ADVANTAGE_STEPS = [0, 0.5, 1], RATIO_STEPS = [0, 0.05, 0.18]; // of the logarithm of the ratio

// The colours with the numbers they stand for.
export function tokenScale(kind, tokens) {
  const swatch = (shade, words) => make("span", { class: "token swatch " + shade }, words);
  const signed = (lows, highs) => [...lows.map((words, at) => swatch("minus" + (3 - at), words)), ...highs.map((words, at) => swatch("plus" + (at + 1), words))];
  const parts = {
    logprob: () => Array.from({ length: 10 }, (_, at) => swatch("low" + at, at === 9 ? "≤ −4.25" : at ? "−" + at / 2 : "0")),
    advantage: () => signed(["< −1", "−1 to −0.5", "−0.5 to 0"], ["0 to 0.5", "0.5 to 1", "> 1"]),
    ratio: () => signed(["< 0.84", "0.84 to 0.95", "0.95 to 1"], ["1 to 1.05", "1.05 to 1.2", "> 1.2"]),
  }[kind];
  const isKnown = kind === "logprob" || tokens.is_traced || (kind === "advantage" && tokens.advantage !== null);
  return parts && isKnown ? make("span", { class: "scale", id: "scale" }, { logprob: "log-prob ", advantage: "advantage ", ratio: "ratio " }[kind], parts()) : "";
}

export function legend(kind, tokens) {
  const ids = tokens.has_pieces ? " A click, or the arrow keys, says all of one token." : " The model's tokenizer is not on this machine, so ids stand for tokens.";
  if (kind === "mask") return "Outlined: sampled by the policy and trained on; plain: prompt, tool output and template." + ids;
  if (kind === "advantage") return advantageWords(tokens) + ids;
  if (kind === "ratio") return ratioWords(tokens) + ids;
  return "The darker, the less likely the token was when it was sampled; the rest on hover." + ids;
}

function advantageWords(tokens) {
  if (tokens.is_traced) {
    const [least, most] = ends(tokens.turns.flatMap((turn) => turn.update.advantages));
    return "Green: made likelier by the update, red: less likely. Advantage " + (least === most ? figure(most) + " for every token" : figure(least) + " to " + figure(most)) + ", as the update had it.";
  }
  return tokens.advantage === null ? "Not known: " + tokens.missing + "." : "Advantage " + figure(tokens.advantage) + ", " + tokens.advantage_note + ".";
}

// The least and the most; not by Math.min(...), which takes a limited number of arguments.
function ends(values) {
  return values.filter(Number.isFinite).reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [Infinity, -Infinity]);
}

function ratioWords(tokens) {
  if (!tokens.is_traced) return "Not known: " + tokens.missing + ".";
  const all = tokens.turns.flatMap((turn) => turn.update.ratios);
  if (all.every((ratio) => ratio === 1)) return "Every ratio is 1: the update took one optimizer step, so nothing had moved when the tokens were gone over.";
  const stopped = tokens.turns.flatMap((turn) => [...turn.update.clips]).filter((sign) => sign !== ".").length;
  return "New over old probability in the update's last pass: green above 1, red below, from " + ends(all).map(figure).join(" to ") + "; underlined: clipped or dropped, " + stopped + " of " + all.length + " tokens.";
}

export function tokensOf(turn, kind, advantage) {
  const line = make("div", { class: "tokens", dir: "ltr", tabindex: "0", role: "group", "aria-label": "tokens: arrow keys walk over them" });
  const add = (ids, pieces, logprobs, isOwn) => {
    const parts = ids.slice(0, MANY).map((id, place) => token(id, pieces ? pieces[place] : null, logprobs ? logprobs[place] : null, isOwn, kind, isOwn ? partOf(turn.update, place, advantage) : {}));
    line.append(...parts);
    if (ids.length > MANY) line.append(make("span", { class: "note" }, " … " + (ids.length - MANY) + " more tokens "));
  };
  if (kind === "mask") add(turn.prompt_ids, turn.prompt_pieces, null, false);
  add(turn.ids, turn.pieces, turn.logprobs, true);
  return make("div", {}, line, pointed(line));
}

// What the one token is that was clicked on or walked to, for those who have no pointer to hover with.
function pointed(line) {
  const words = make("p", { class: "note pointed", "aria-live": "polite" });
  const show = (next) => {
    if (!next || !next.classList.contains("token")) return;
    for (const each of line.querySelectorAll(".token.at")) each.classList.remove("at");
    next.classList.add("at");
    next.scrollIntoView({ block: "nearest" });
    words.textContent = next.getAttribute("title");
  };
  line.addEventListener("click", (event) => show(event.target));
  line.addEventListener("keydown", (event) => {
    const tokens = [...line.querySelectorAll(".token")], now = tokens.findIndex((each) => each.classList.contains("at"));
    const next = { ArrowRight: now + 1, ArrowLeft: now < 0 ? tokens.length - 1 : now - 1, Home: 0, End: tokens.length - 1 }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    show(tokens[Math.min(Math.max(next, 0), tokens.length - 1)]);
  });
  return words;
}

// What one token was to the update; of an episode whose tokens were not kept, the advantage its group gives.
function partOf(update, place, advantage) {
  if (!update) return advantage === null ? {} : { advantage };
  return { old: update.olds[place], now: update.news[place], ratio: update.ratios[place], advantage: update.advantages[place], clip: update.clips[place] };
}

function token(id, piece, logprob, isOwn, kind, part) {
  const words = ["id " + id];
  if (logprob !== null) words.push("log-prob " + logprob + " as sampled", "probability " + figure(Math.exp(logprob)));
  for (const [name, value] of [["log-prob before the update", part.old], ["in its last pass", part.now], ["ratio", part.ratio], ["advantage", part.advantage]]) {
    if (value !== undefined && value !== null) words.push(name + " " + value);
  }
  if (CLIPS[part.clip]) words.push(CLIPS[part.clip]);
  words.push(isOwn && part.clip !== "x" ? "loss mask 1" : "loss mask 0");
  return make("span", { class: "token " + shadeOf(kind, logprob, isOwn, part), title: words.join(" · "), "data-id": id }, piece === null ? id + " " : piece.replaceAll("\n", "⏎\n"));
}

function shadeOf(kind, logprob, isOwn, part) {
  const signed = (value, steps) => (value > 0 ? "plus" : value < 0 ? "minus" : "null") + Math.min(3, steps.filter((step) => Math.abs(value) > step).length);
  const { advantage, ratio } = part;
  const stopped = (kind === "ratio" || kind === "advantage") && CLIPS[part.clip] ? " stopped" : "";
  if (kind === "logprob" && logprob !== null) return "low" + Math.min(9, Math.round(-logprob * 2));
  if (kind === "mask" && isOwn && part.clip !== "x") return "own";
  if (kind === "advantage" && Number.isFinite(advantage)) return signed(advantage, ADVANTAGE_STEPS) + stopped;
  if (kind === "ratio" && Number.isFinite(ratio)) return signed(Math.log(Math.max(ratio, 1e-4)), RATIO_STEPS) + stopped;
  return "";
}
