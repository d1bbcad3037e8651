// A chart over steps: caption, canvas (uPlot), hover and arrow keys, and the readout that says the same in words.
// All charts of a view share the hovered step. Dragging over one sets the view's range of steps, a double click clears it.

import { figure, make } from "./dom.js";
import { go } from "./place.js";

const HEIGHT = 200, SHARED_CURSOR = "steps";
const WHOLE_NUMBERS = [1, 10, 100, 1e3, 1e4, 1e5, 1e6, 1e7].flatMap((size) => [size, 2 * size, 5 * size]);

// readout: the list below the canvas; fill(step): writes the values at a step into it. plot: as optionsOf takes it.
export function chart({ title, note, key, data, readout, fill, ...plot }) {
  const steps = data[0], holder = make("div", { class: "plot", "aria-hidden": "true" });
  const box = make("figure", { class: "chart", tabindex: "0", id: "chart-" + key, "aria-label": title + ". " + note },
    make("figcaption", {}, make("h3", {}, title), make("p", { class: "note" }, note)), holder, readout);
  let at = null, isReady = false;
  const show = (step) => {
    at = step;
    if (step === null) delete box.dataset.at; else box.dataset.at = step;
    fill(step === null ? steps[steps.length - 1] : step);
  };
  const move = (isShared) => box.plot.setCursor({ left: box.plot.valToPos(at, "x"), top: 0 }, true, isShared);
  const ready = () => { isReady = true; if (at !== null) move(false); };
  const setCursor = ({ cursor }) => {
    const step = cursor.idx === null ? null : steps[cursor.idx];
    if (isReady && step !== at) show(step);
  };
  box.walk = (step) => { show(nearest(steps, step)); if (isReady) move(true); };
  box.addEventListener("keydown", (event) => {
    if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
    event.preventDefault();
    const place = at === null ? steps.length - 1 : steps.indexOf(at) + (event.key === "ArrowLeft" ? -1 : 1);
    box.walk(steps[Math.min(Math.max(place, 0), steps.length - 1)]);
  });
  // all readouts follow the shared step; a screen reader reads out the focused one only
  box.addEventListener("focusin", () => readout.setAttribute("aria-live", "polite"));
  box.addEventListener("focusout", () => readout.removeAttribute("aria-live"));
  whileShown(box, holder, (width) => new uPlot(optionsOf(width, plot, { ready: [ready], setCursor: [setCursor] }), data, holder));
  show(null);
  return box;
}

export function nearest(steps, step) {
  return steps.reduce((best, other) => Math.abs(other - step) < Math.abs(best - step) ? other : best);
}

// The current theme's colour of this name, with an opacity from 0 to 1.
export function ink(name, opacity = 1) {
  return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim() + Math.round(255 * opacity).toString(16).padStart(2, "0");
}

// Draw all charts again: a canvas does not follow a change of theme by itself.
export function repaint() {
  for (const plot of uPlot.sync(SHARED_CURSOR).plots) plot.redraw(false);
}

// A plot is made once its width is known, and destroyed with its figure: uPlot listens to the window.
function whileShown(box, holder, start) {
  new ResizeObserver((_, observer) => {
    const width = holder.clientWidth;
    if (width && box.plot) box.plot.setSize({ width, height: HEIGHT });
    else if (width) box.plot = start(width);
    else if (box.plot && !box.isConnected) { box.plot.destroy(); observer.disconnect(); }
  }).observe(holder);
}

// limits: [{ value }], drawn across; alarms: [step], drawn down; paint(plot): draws below both. No text of a run goes to uPlot.
function optionsOf(width, { series, bands, range, y, yAxis, limits = [], alarms = [], paint = () => {} }, hooks) {
  const steps = (_, first, last) => first === last ? [first - 1, last + 1] : [first, last];
  const touch = (plot) => plot.over.addEventListener("pointermove", (event) => event.pointerType === "touch" && plot.setCursor({ left: event.offsetX, top: 0 }, true, true));
  return {
    width, height: HEIGHT, padding: [8, 8, 0, 0], legend: { show: false }, series, bands,
    scales: { x: { time: false, range: range || steps }, y },
    axes: [axis({ size: 24, incrs: WHOLE_NUMBERS }), axis({ size: 52, space: 34, ...yAxis })],
    cursor: { y: false, points: { size: (_, place) => series[place].width > 1 ? 6 : 0 }, drag: { setScale: false, dist: 5 },
      sync: { key: SHARED_CURSOR, scales: ["x", null], filters: { pub: (kind) => kind === "mousemove" } },
      bind: { dblclick: () => () => go({ first: "", last: "" }) } },
    hooks: { ...hooks, init: [touch], setSelect: [zoom], draw: [paint, (plot) => marks(plot, limits, alarms)] },
  };
}

function axis(more) {
  return { stroke: () => ink("soft"), font: "11px system-ui, sans-serif", gap: 4, ticks: { show: false }, grid: { stroke: () => ink("line"), width: 0.7 },
    values: (_, splits) => splits.map((value) => value === null ? "" : figure(Number(value.toPrecision(6)))), ...more };
}

// Show the dragged range only; the server answers it in more detail than it had before.
function zoom(plot) {
  const { left, width } = plot.select;
  const first = Math.ceil(plot.posToVal(left, "x")), last = Math.floor(plot.posToVal(left + width, "x"));
  plot.setSelect({ left: 0, width: 0 }, false);
  if (first <= last) go({ first, last });
}

function marks({ ctx, bbox, valToPos }, limits, alarms) {
  const { left, top, width, height } = bbox, stroke = (colour, dash, places) => {
    ctx.strokeStyle = colour;
    ctx.setLineDash(dash);
    ctx.beginPath();
    for (const place of places) {
      const [x, y, wide, high] = place.map(Math.round);
      ctx.moveTo(x + 0.5, y + 0.5); // through the middle of a pixel, or the line is blurred over two
      ctx.lineTo(x + wide + 0.5, y + high + 0.5);
    }
    ctx.stroke();
  };
  ctx.save();
  ctx.beginPath();
  ctx.rect(left, top, width, height);
  ctx.clip();
  ctx.lineWidth = devicePixelRatio;
  stroke(ink("warn", 0.5), [], alarms.map((step) => [valToPos(step, "x", true), top, 0, height]));
  stroke(ink("bad"), [4 * devicePixelRatio, 3 * devicePixelRatio], limits.map(({ value }) => [left, valToPos(value, "y", true), width, 0]));
  ctx.restore();
}
