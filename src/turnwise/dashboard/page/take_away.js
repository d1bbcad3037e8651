// A chart's menu: its lines, which can be switched off, and the chart to take along: its points as CSV, its picture as PNG,
// on white and twice as sharp as a usual screen.

import { save, saveCsv } from "./csv.js";
import { brief, draw, lazy, make } from "./dom.js";

const POINTS = ["x", "run", "figure", "value", "low", "high"];
const WIDE = 760, SHARP = 2, HEAD = 34;
const PAINTED = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linejoin", "opacity", "font-family", "font-size", "font-weight", "text-anchor", "visibility", "paint-order"];

// rows(): the points; paint(wide): the chart as SVG; lines: the names of its lines; hidden: those that are switched off.
export function takeAway({ key, title, axis, rows, paint, lines, hidden, more = [] }) {
  const name = key + "-by-" + axis, button = (kind, what, take) => make("button", { type: "button", class: "pill", id: kind + "-" + key, "aria-label": title + ": " + what, onclick: take }, kind.toUpperCase());
  const toggle = (line) => make("label", {}, make("input", { type: "checkbox", id: "line " + key + " " + line, checked: !hidden.has(key + " " + line), onchange: () => {
    if (!hidden.delete(key + " " + line)) hidden.add(key + " " + line);
    dispatchEvent(new Event("redraw"));
  } }), " ", brief(line, 60));
  return lazy("menu-" + key, make("span", { "aria-label": "more of " + title, title: "lines, CSV, PNG" }, "⋯"), () => [
    lines.length > 1 ? make("div", { class: "toggles" }, lines.slice(0, 40).map(toggle)) : "", more, make("div", {},
      button("csv", "save the drawn points as CSV", () => saveCsv(name, POINTS, rows())), " ", button("png", "save as a picture", async () => save(name + ".png", await pictureOf(title, paint))))].filter(Boolean), { kind: "menu" });
}

// The chart in light colours on any theme: its computed styles are written into a copy, which is drawn on a canvas.
async function pictureOf(title, paint) {
  const root = document.documentElement, before = root.dataset.theme, holder = make("div", { class: "chart picture off-screen" });
  root.dataset.theme = "light";
  const svg = paint(WIDE), high = svg.viewBox.baseVal.height;
  document.body.append(holder);
  holder.append(svg);
  for (const each of svg.querySelectorAll("*")) {
    const style = getComputedStyle(each);
    for (const name of PAINTED) each.style.setProperty(name, style.getPropertyValue(name));
  }
  const ink = getComputedStyle(document.body).color;
  holder.remove();
  if (before === undefined) delete root.dataset.theme; else root.dataset.theme = before;
  svg.setAttribute("viewBox", "0 " + -HEAD + " " + WIDE + " " + (high + HEAD));
  svg.setAttribute("width", WIDE * SHARP);
  svg.setAttribute("height", (high + HEAD) * SHARP);
  svg.prepend(draw("rect", { x: 0, y: -HEAD, width: WIDE, height: high + HEAD, fill: "#ffffff" }), draw("text", { x: 12, y: -12, fill: ink, "font-family": "sans-serif", "font-size": 15, "font-weight": 600 }, brief(title, 80)));
  const image = new Image(), canvas = make("canvas", { width: WIDE * SHARP, height: (high + HEAD) * SHARP });
  image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(new XMLSerializer().serializeToString(svg));
  await image.decode();
  canvas.getContext("2d").drawImage(image, 0, 0);
  return new Promise((done) => { canvas.toBlob(done, "image/png"); });
}
