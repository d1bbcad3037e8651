// Takes tags, attributes and texts, gives elements. Whatever a model or a tool wrote enters the page here,
// as text: no markup is ever parsed.

import { morph } from "./morph.js";

const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]/g;

// Control and direction marks, which would act on the text around them, as signs that can be seen.
export function readable(text) {
  return String(text).replace(CONTROL, (mark) => {
    const code = mark.charCodeAt(0);
    if (code === 0x7f) return "\u2421";
    if (code < 0x20) return String.fromCharCode(0x2400 + code);
    return "⟨U+" + code.toString(16).toUpperCase().padStart(4, "0") + "⟩";
  });
}

export function make(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

export function draw(tag, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) hear(element, name.slice(2), value);
    else if (name === "value" || name === "checked" || name === "selected") element[name] = value;
    else if (name === "style") element.style.cssText = value; // by script: the page's policy forbids the attribute
    else element.setAttribute(name, value === true ? "" : readable(value));
  }
  for (const child of children.flat(6)) {
    if (child === undefined || child === null || child === false || child === "") continue;
    element.append(child instanceof Node ? child : document.createTextNode(readable(child)));
  }
  return element;
}

// One listener a kind of event; what it calls can be exchanged, so that an element can stay when its view is drawn anew.
function hear(element, kind, listener) {
  element.heard = { ...element.heard, [kind]: listener };
  element.addEventListener(kind, (event) => element.heard[kind] && element.heard[kind](event));
}

const MINUS = "−", NARROW = "\u202f";

export function signed(text) {
  return String(text).replace("-", MINUS);
}

export function isKnown(value) {
  return value !== null && value !== undefined && Number.isFinite(value);
}

// A share in whole percent; the exact one is on hover.
export function pct(value) {
  return isKnown(value) ? signed(Math.round(100 * value)) + "%" : "–";
}

// A share that is usually small.
export function pct1(value) {
  return !isKnown(value) ? "–" : value === 0 ? "0%" : value > 0.9995 ? pct(value) : (100 * value).toFixed(1) + "%";
}

// A difference of two shares, in points.
export function points(value) {
  return (value > 0 ? "+" : "") + signed(Math.round(100 * value));
}

export function whole(value) {
  return isKnown(value) ? signed(Math.round(value).toLocaleString("en").replaceAll(",", NARROW)) : "–";
}

export function plural(number, one, many = one + "s") {
  return whole(number) + " " + (number === 1 ? one : many);
}

// Two or three digits, as people read them.
export function num(value) {
  if (!isKnown(value)) return "–";
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size >= 1e4) return size < 1e9 ? whole(value) : signed(value.toExponential(2));
  if (Number.isInteger(value)) return signed(value);
  if (size < 1e-3) return signed(value.toExponential(1).replace(".0", ""));
  return signed(Number(value.toPrecision(3)));
}

export function took(seconds) {
  if (!isKnown(seconds)) return "–";
  if (seconds < 1) return seconds < 5e-4 ? "0 s" : seconds < 0.01 ? (1000 * seconds).toFixed(1) + " ms" : Math.round(1000 * seconds) + " ms";
  if (seconds < 90) return (seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)) + " s";
  if (seconds < 5400) return (seconds < 600 ? (seconds / 60).toFixed(1) : Math.round(seconds / 60)) + " min";
  return (seconds / 3600).toFixed(1) + " h";
}

// How long still: in whole minutes.
export function roughly(seconds) {
  return seconds < 30 ? "less than a minute" : seconds < 5400 ? plural(Math.round(seconds / 60), "minute") : (seconds / 3600).toFixed(1) + " hours";
}

function exactly(value, words, more = {}) {
  return make("span", { class: "number", title: isKnown(value) ? String(value) : "", ...more }, words);
}

export function number(value, more) {
  return exactly(value, num(value), more);
}

export function percent(value, more) {
  return exactly(value, pct(value), more);
}

export function seconds(value) {
  return exactly(value, took(value));
}

const SHORT = 4000;

// A text of any length: its beginning, and the rest when asked for.
export function longText(text, kind) {
  const whole_ = String(text);
  const body = make("pre", { class: "text " + (kind || ""), dir: "ltr" });
  if (whole_.length <= SHORT) {
    body.append(readable(whole_));
    return body;
  }
  const more = make("button", { type: "button", class: "more", onclick: () => { body.textContent = readable(whole_); more.remove(); } },
    "show all " + whole_.length.toLocaleString("en-US") + " characters");
  body.append(readable(whole_.slice(0, SHORT)) + " …");
  return make("div", {}, body, more);
}

// A name of any length, for where there is room for a line.
export function brief(text, most = 200) {
  const whole_ = String(text);
  return whole_.length > most ? whole_.slice(0, most - 1) + "…" : whole_;
}

// cpu-20261118-193901 is the recipe and the time of the start; a name of one's own stays as it is.
export function titleOf(name) {
  const found = /^(.*)-(\d{4})(\d\d)(\d\d)-(\d\d)(\d\d)\d\d$/.exec(name);
  if (!found) return { title: brief(name, 60), when: "" };
  const month = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"][found[3] - 1];
  return { title: brief(found[1], 60), when: Number(found[4]) + " " + month + " " + found[5] + ":" + found[6] };
}

export function fullTitle(name) {
  const { title, when } = titleOf(name);
  return when ? title + ", " + when : title;
}

// The end of a path, and a recipe without its suffix: the whole of it belongs into the title.
export function shortPath(text) {
  return brief(String(text).split("/").slice(-2).join("/").replace(/\.toml$/, ""), 60);
}

export function capital(said) {
  return said.charAt(0).toUpperCase() + said.slice(1);
}

export function words(key) {
  return brief(String(key || "–"), 60).replaceAll("_", " ");
}

// Each cell knows its head, for it stands beside it where the page is too narrow for columns. A head: words, or { words, kind, more }.
export function table(heads, rows, attributes = {}) {
  const given = heads.map((head) => head && head.words !== undefined ? head : { words: head });
  for (const row of rows) [...row.children].forEach((cell, place) => {
    cell.setAttribute("data-head", readable((given[place] || {}).words || ""));
    if ((given[place] || {}).kind) cell.classList.add(...given[place].kind.split(" "));
  });
  return make("div", { class: "scroll" }, make("table", { ...attributes, class: (attributes.class || "") + (heads.length > 2 ? " stack" : "") },
    make("thead", {}, make("tr", {}, given.map(({ words: said, kind, more = {} }) => make("th", { scope: "col", class: kind, ...more }, more.content || said)))),
    make("tbody", {}, rows)));
}

export function cells(...values) {
  return values.map((value) => make("td", {}, value));
}

// Whether the model ended the episode itself.
export function isFinished(stop) {
  return ["answered", "ended_by_call", "ended_by_user", "ended"].includes(stop);
}

export function toneOf(isSuccess) {
  return isSuccess === null ? "infra" : isSuccess ? "ok" : "fault";
}

export function badge(said, kind = "") {
  return make("span", { class: "tag " + kind }, said);
}

// The head of a view: its question's answer, above it where we are, below it what the answer rests on.
export function answer(heading, { eyebrow = "", lead = "", tone = "" } = {}) {
  return make("div", { class: "answer", id: "answer" }, eyebrow ? make("p", { class: "eyebrow" }, eyebrow) : "", make("h1", { class: tone }, heading), lead ? make("p", {}, lead) : "");
}

export function part(title, note, ...content) {
  return make("section", {}, make("div", { class: "head" }, make("h2", {}, title), note ? make("p", {}, note) : ""), content);
}

// A fold whose inside is made when it is opened.
export function lazy(id, summary, build, { isOpen = false, kind = "more" } = {}) {
  const body = make("div");
  const fold = make("details", { id, class: kind, open: isOpen, "data-asked": isOpen, ontoggle: () => { if (fold.open) refill(); } }, make("summary", {}, summary), body);
  const refill = async () => { const fresh = make("div", {}, await fold.given()); if (body.isFilled) morph(body, fresh); else body.replaceChildren(...fresh.childNodes); body.isFilled = true; };
  fold.given = build;
  fold.renew = (next) => { fold.given = next; if (fold.open) refill(); };
  return fold;
}

export function searchField(attributes, given = {}) {
  return make("input", { type: "search", class: "pill find-in", ...attributes, ...given });
}

// Some choices of which one holds: [[value, words]].
export function choice(label, options, value, pick) {
  return make("span", { class: "seg", role: "group", "aria-label": label }, options.map(([each, said]) => make("button", { type: "button", "data-value": each, "aria-pressed": String(each === value), onclick: () => pick(each) }, said)));
}

export function options(list, value) {
  return list.map(([each, said]) => make("option", { value: each, selected: each === value }, said));
}
