// Takes tags, attributes and texts, gives elements. Whatever a model or a tool wrote enters the page here,
// as text: no markup is ever parsed.

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
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked" || name === "selected") element[name] = value;
    else element.setAttribute(name, value === true ? "" : readable(value));
  }
  for (const child of children.flat(4)) {
    if (child === undefined || child === null || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(readable(child)));
  }
  return element;
}

// A number as people read it; the exact one is on hover.
export function figure(value) {
  if (value === undefined || value === null || !Number.isFinite(value)) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 1e9) return value.toLocaleString("en-US");
  if (size >= 1e5 || size < 1e-3) return value.toExponential(2);
  return String(Number(value.toPrecision(4)));
}

export function number(value, more = {}) {
  return make("span", { class: "number", title: value === null || value === undefined ? "" : String(value), ...more }, figure(value));
}

export function percent(value) {
  return make("span", { class: "number", title: String(value) }, value === null || value === undefined ? "–" : (100 * value).toFixed(1) + "%");
}

export function seconds(value) {
  if (value === null || value === undefined) return make("span", {}, "–");
  const words = value < 1 ? (1000 * value).toFixed(value < 0.01 ? 2 : 0) + " ms" : value < 120 ? value.toFixed(2) + " s" : (value / 60).toFixed(1) + " min";
  return make("span", { class: "number", title: value + " s" }, words);
}

const SHORT = 4000;

// A text of any length: its beginning, and the rest when asked for.
export function longText(text, kind) {
  const whole = String(text);
  const body = make("pre", { class: "text " + (kind || ""), dir: "ltr" });
  if (whole.length <= SHORT) {
    body.append(readable(whole));
    return body;
  }
  const more = make("button", { type: "button", class: "more", onclick: () => { body.textContent = readable(whole); more.remove(); } },
    "show all " + whole.length.toLocaleString("en-US") + " characters");
  body.append(readable(whole.slice(0, SHORT)) + " …");
  return make("div", {}, body, more);
}

// A name of any length, for where there is room for a line.
export function brief(text, most = 200) {
  const whole = String(text);
  return whole.length > most ? whole.slice(0, most - 1) + "…" : whole;
}

// Each cell knows its head, for it stands beside it where the page is too narrow for columns.
export function table(heads, rows, attributes = {}) {
  for (const row of rows) [...row.children].forEach((cell, place) => cell.setAttribute("data-head", readable(heads[place] || "")));
  const kind = (attributes.class || "") + (heads.length > 2 ? " stack" : "");
  return make("div", { class: "wide" }, make("table", { ...attributes, class: kind },
    make("thead", {}, make("tr", {}, heads.map((head) => make("th", { scope: "col" }, head)))),
    make("tbody", {}, rows)));
}

export function cells(...values) {
  return values.map((value) => make("td", {}, value));
}

// Of an episode: a success, none, or what could not be judged because the judging itself failed.
export function verdict(isSuccess) {
  if (isSuccess === null) return make("span", { class: "badge warn", title: "The judge failed; not counted" }, "not judged");
  return badge(isSuccess ? "success" : "no success", isSuccess ? "good" : "bad");
}

// Whether the model ended the episode itself.
export function isFinished(stop) {
  return ["answered", "ended_by_call", "ended_by_user", "ended"].includes(stop);
}

export function toneOf(isSuccess) {
  return isSuccess === null ? "warn" : isSuccess ? "good" : "poor";
}

export function badge(word, kind) {
  return make("span", { class: "badge " + kind }, word);
}
