// A chart to take along: its points as CSV, and its picture as PNG, on white and twice as sharp as a usual screen.

import { AXES } from "./axes.js";
import { save, saveCsv } from "./csv.js";
import { brief, make, readable } from "./dom.js";
import { ink, onPaper } from "./ink.js";

export const DASHES = { solid: [], dashed: [6, 3], dotted: [2, 3], dashdot: [7, 3, 2, 3] };
const POINTS = ["x", "run", "figure", "value", "low", "high"];
const WIDE = 640, SHARP = 2, MARGIN = 16, LINE = 20;

// rows(): the points; legend(): [{ label, colour, dash }]; start(holder, width, options, hooks): draws the chart.
export function takeAway({ key, title, axis, rows, legend, start }) {
  const name = key + "-by-" + axis, button = (kind, what, take) => make("button", { type: "button", id: kind + "-" + key, "aria-label": title + ": " + what, title: what, onclick: take }, kind.toUpperCase());
  return make("span", { class: "take" },
    rows ? button("csv", "save the drawn points as CSV", () => saveCsv(name, POINTS, rows())) : "",
    button("png", "save as a picture", async () => save(name + ".png", await onPaper(() => pictureOf(title, AXES[axis].title, legend, start)))));
}

async function pictureOf(title, below, legend, start) {
  const size = SHARP / devicePixelRatio, holder = make("div");
  const plot = await new Promise((done) => { start(holder, WIDE * size, { size, isPicture: true }, { ready: [done] }); });
  const canvas = make("canvas"), draw = canvas.getContext("2d"), font = (weight, high) => weight + " " + high + "px system-ui, sans-serif";
  draw.font = font("", 13);
  const items = placed(legend(), draw), high = plot.ctx.canvas.height / SHARP, top = MARGIN + 24;
  canvas.width = (WIDE + 2 * MARGIN) * SHARP;
  canvas.height = (top + high + LINE + items.num * LINE + MARGIN) * SHARP;
  draw.scale(SHARP, SHARP);
  draw.fillStyle = "#ffffff";
  draw.fillRect(0, 0, canvas.width, canvas.height);
  draw.drawImage(plot.ctx.canvas, MARGIN, top, WIDE, high);
  plot.destroy();
  draw.fillStyle = ink("front");
  draw.font = font("600", 16);
  draw.fillText(readable(brief(title, 70)), MARGIN, MARGIN + 12);
  draw.font = font("", 13);
  draw.textAlign = "right";
  draw.fillText(below, WIDE + MARGIN, top + high + 14);
  draw.textAlign = "left";
  for (const item of items) legendItem(draw, item, top + high + LINE);
  return new Promise((done) => { canvas.toBlob(done, "image/png"); });
}

// The legend's items one after the other, in as many lines as they need.
function placed(legend, draw) {
  let left = MARGIN, line = 0;
  const items = legend.map((item) => {
    const words = readable(brief(item.label, 80)), wide = Math.min(draw.measureText(words).width, WIDE - 40);
    if (left > MARGIN && left + wide + 34 > WIDE + MARGIN) { left = MARGIN; line += 1; }
    const found = { ...item, words, wide, left, line };
    left += wide + 50;
    return found;
  });
  return Object.assign(items, { num: line + 1 });
}

function legendItem(draw, { colour, dash, words, wide, left, line }, top) {
  const middle = top + line * LINE + LINE / 2;
  draw.strokeStyle = ink(colour);
  draw.lineWidth = 2;
  draw.setLineDash(DASHES[dash] || []);
  draw.beginPath();
  draw.moveTo(left, middle);
  draw.lineTo(left + 24, middle);
  draw.stroke();
  draw.setLineDash([]);
  draw.fillText(words, left + 30, middle + 4, wide);
}
