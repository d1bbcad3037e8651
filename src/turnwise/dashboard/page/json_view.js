// Reads JSON that a tool wrote and draws it: rows as a table, the rest as a tree that folds. Numbers keep their digits,
// which JSON.parse would round, and a key that is given twice is shown twice.

import { cells, longText, make, readable, table } from "./dom.js";

const JSON_MAX_CHARS = 200000, JSON_MAX_NESTED = 30, JSON_MAX_SHOWN = 20, JSON_MAX_COLUMNS = 12, JSON_MAX_LEAF = 300;
const JSON_LEAF = /"[^"\\\u0000-\u001f]*(?:\\.[^"\\\u0000-\u001f]*)*"|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null/y, JSON_SPACES = /[ \t\r\n]*/y, JSON_KEY = /"[^"\\\u0000-\u001f]*(?:\\.[^"\\\u0000-\u001f]*)*"/y;

// The text as nested parts with their places; null if it is not JSON, too long or too deep.
export function jsonOf(text) {
  if (text.length > JSON_MAX_CHARS) return null;
  let at = 0;
  const skip = () => { JSON_SPACES.lastIndex = at; JSON_SPACES.exec(text); at = JSON_SPACES.lastIndex; };
  const take = (pattern) => { pattern.lastIndex = at; const found = pattern.exec(text); if (!found) throw new SyntaxError("not JSON"); at = pattern.lastIndex; return found[0]; };
  const several = (close, one) => {
    const parts = [];
    for (at += 1, skip(); text[at] !== close; skip()) {
      if (parts.length) { if (text[at] !== ",") throw new SyntaxError("not JSON"); at += 1; skip(); }
      parts.push(one());
    }
    at += 1;
    return parts;
  };
  const value = (depth) => {
    if (depth > JSON_MAX_NESTED) throw new SyntaxError("too deep");
    skip();
    if (text[at] === "[") return { items: several("]", () => value(depth + 1)) };
    if (text[at] !== "{") return { leaf: take(JSON_LEAF) };
    return { entries: several("}", () => {
      const start = at, key = JSON.parse(take(JSON_KEY));
      skip();
      if (text[at] !== ":") throw new SyntaxError("not JSON");
      at += 1;
      const inner = value(depth + 1);
      return { key, value: inner, start, end: at };
    }) };
  };
  try {
    const whole = value(0);
    skip();
    return at === text.length ? whole : null;
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof RangeError) return null; // a range error: the text is too much for a regular expression
    throw error;
  }
}

// A tool's result: drawn if it is an object or a list, and as it was written one click away.
export function resultOf(content) {
  const text = String(content), found = /^\s*[[{]/.test(text) ? jsonOf(text) : null;
  if (!found) return longText(text, "result");
  const shown = make("div", { class: "json" }, jsonPart(found, 0)), raw = longText(text, "result");
  raw.hidden = true;
  const turn = make("button", { type: "button", class: "more raw", onclick: () => {
    [raw.hidden, shown.hidden] = [shown.hidden, raw.hidden];
    turn.textContent = raw.hidden ? "raw" : "formatted";
  } }, "raw");
  return make("div", { class: "result-of" }, shown, raw, turn);
}

function jsonPart(node, depth) {
  if (node.leaf !== undefined) return leafOf(node.leaf);
  if (node.items && isJsonTable(node.items)) return jsonTable(node.items);
  const inner = node.entries ? node.entries.map((entry) => [entry.key, entry.value]) : node.items.map((item, place) => [String(place), item]);
  if (!inner.length) return make("span", {}, node.entries ? "{}" : "[]");
  const list = make("ul", { class: "tree" });
  const add = (from, to) => list.append(...inner.slice(from, to).map(([key, value]) => treeLine(key, value, depth)));
  return firstParts(list, add, inner.length, "entries");
}

function treeLine(key, value, depth) {
  if (value.leaf !== undefined) return make("li", {}, make("span", { class: "json-key" }, key + ": "), leafOf(value.leaf));
  const num = (value.entries || value.items).length;
  return make("li", {}, make("details", { open: depth < 2 }, make("summary", {}, make("span", { class: "json-key" }, key), make("small", {}, value.entries ? " {" + num + "}" : " [" + num + "]")), jsonPart(value, depth + 1)));
}

function leafOf(text) {
  if (text.length <= JSON_MAX_LEAF) return make("span", { class: "leaf" }, text);
  const words = make("span", { class: "leaf" }, text.slice(0, JSON_MAX_LEAF) + " …");
  const more = make("button", { type: "button", class: "more", onclick: () => { words.textContent = readable(text); more.remove(); } }, "show all " + text.length.toLocaleString("en-US") + " characters");
  return [words, " ", more];
}

// Objects without anything nested in them, with few enough keys for columns.
function isJsonTable(items) {
  const keys = new Set(items.flatMap((item) => (item.entries || []).map((entry) => entry.key)));
  return items.length > 1 && keys.size > 0 && keys.size <= JSON_MAX_COLUMNS && items.every((item) => item.entries && new Set(item.entries.map((entry) => entry.key)).size === item.entries.length && item.entries.every((entry) => entry.value.leaf !== undefined));
}

function jsonTable(items) {
  const heads = [...new Set(items.flatMap((item) => item.entries.map((entry) => entry.key)))];
  const row = (item) => make("tr", {}, cells(...heads.map((head) => { const found = item.entries.find((entry) => entry.key === head); return found ? leafOf(found.value.leaf) : ""; })));
  const whole = table(heads, [], { class: "rows-of" }), body = whole.querySelector("tbody");
  const add = (from, to) => {
    const rows = items.slice(from, to).map(row);
    for (const each of rows) [...each.children].forEach((cell, place) => cell.setAttribute("data-head", readable(heads[place])));
    body.append(...rows);
  };
  return firstParts(whole, add, items.length, "rows");
}

// The first parts, and the rest when asked for.
function firstParts(element, add, num, words) {
  add(0, JSON_MAX_SHOWN);
  if (num <= JSON_MAX_SHOWN) return element;
  const more = make("button", { type: "button", class: "more", onclick: () => { add(JSON_MAX_SHOWN, num); more.remove(); } }, "show all " + num.toLocaleString("en-US") + " " + words);
  return make("div", {}, element, more);
}
