// Searches the texts of episodes in an exported file, as the server's full-text index does, and draws excerpts.

import { make } from "./dom.js";
import { moved } from "./place.js";

const EXCERPT_BEFORE = 40, EXCERPT_AFTER = 100;

// The terms of a search, each as the words that must follow one another.
function termsOf(typed) {
  const found = [...typed.matchAll(/"([^"]*)"?|([^\s"]+)/g)].map(([, phrase, word]) => foldedText(phrase || word || "").match(/[\p{L}\p{N}]+/gu) || []);
  return found.filter((words) => words.length);
}

// Lower case and without accents; every character stays at its place.
function foldedText(text) {
  return /^[\x00-\x7f]*$/.test(text) ? text.toLowerCase() : [...text].map((sign) => sign.length > 1 ? sign : sign.normalize("NFD")[0].toLowerCase()[0]).join("");
}

function patternOf(terms) {
  const phrases = terms.map((words) => words.join("[^\\p{L}\\p{N}]+")).sort((a, b) => b.length - a.length);
  return new RegExp("(?<![\\p{L}\\p{N}])(?:" + phrases.join("|") + ")(?![\\p{L}\\p{N}])", "gu");
}

// Everything that is searched: what the user, the model and the tools said.
function passagesOf(found) {
  const questions = found.task.prompt.filter((message) => message.role === "user").map((message) => ({ where: "question", turn: 0, text: message.content }));
  return [...questions, ...found.turns.flatMap((turn, place) => [["user", turn.user], ["reasoning", turn.reasoning], [turn.calls.length ? "text" : "answer", turn.text], ["malformed", (turn.error && turn.error.written) || ""],
    ...turn.calls.map((call) => ["call", call.name + " " + call.arguments]), ...turn.calls.filter((call) => call.result).map((call) => ["tool result", call.result.content])]
    .map(([where, text]) => ({ where, turn: place + 1, text: String(text) }))), { where: "environment", turn: found.turns.length, text: found.last_reply }];
}

// The excerpt of an episode in which all terms occur; null of any other.
export function excerptIn(found, typed) {
  const terms = termsOf(typed), passages = passagesOf(found);
  if (!terms.length || !terms.every((term) => passages.some(({ text }) => patternOf([term]).test(foldedText(text))))) return null;
  const { where, turn, text } = passages.find((passage) => patternOf(terms).test(foldedText(passage.text)));
  const hits = [...foldedText(text).matchAll(patternOf(terms))], first = hits[0].index;
  const start = Math.max(0, first - EXCERPT_BEFORE), end = Math.max(first + EXCERPT_AFTER, first + hits[0][0].length), parts = start ? [["…", false]] : [];
  let at = start;
  for (const hit of hits.filter((each) => each.index + each[0].length <= end)) {
    parts.push([text.slice(at, hit.index), false], [text.slice(hit.index, hit.index + hit[0].length), true]);
    at = hit.index + hit[0].length;
  }
  parts.push([text.slice(at, end), false], [end < text.length ? "…" : "", false]);
  return { where, turn, parts };
}

// A hit with its surroundings; it leads to its turn.
export function excerptOf({ where, turn, parts }, run, id) {
  return make("span", { class: "words excerpt" }, make("a", { class: "place", href: moved({ run, id, turn: turn || "" }, "trajectory") }, turn ? where + ", turn " + turn : where), ": ",
    parts.map(([text, isHit]) => isHit ? make("mark", {}, text) : text));
}

// How far the search is; nothing where it is complete.
export function searchNote(search) {
  if (!search) return "";
  const isPart = search.num_searched < search.num_episodes;
  const far = isPart ? "Searched " + search.num_searched.toLocaleString("en-US") + " of " + search.num_episodes.toLocaleString("en-US") + " episodes so far." : "";
  return search.problem || far ? make("p", { id: "searched", class: "note", role: "status" }, [search.problem, far].filter(Boolean).join(" ")) : "";
}

export function isSearching(search) {
  return Boolean(search && search.num_searched < search.num_episodes);
}
