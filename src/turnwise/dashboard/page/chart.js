// A chart over steps, hours or tokens: caption, canvas (uPlot), hover and arrow keys, and the readout that says the same in words.
// All charts of a view share the hovered place. Dragging over one sets the view's range, a double click clears it,
// a click and Enter open what is behind the point.

import { AXES, rangeNames, WHOLE_RANGE } from "./axes.js";
import { figure, make } from "./dom.js";
import { ink } from "./ink.js";
import { go, place } from "./place.js";
import { takeAway } from "./take_away.js";

const HEIGHT = 200, CLICK_PIXELS = 5, DOUBLE_CLICK_MS = 250;
const WHOLE_NUMBERS = [1, 10, 100, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10].flatMap((size) => [size, 2 * size, 5 * size]);

// readout: the list below the canvas; fill(x): writes the values there into it; rows(): the points as rows for CSV;
// open(x, y): opens what is behind a point, y being null for the keyboard. plot: as optionsOf takes it.
export function chart({ title, note, key, data, readout, fill, rows, legend = () => [], open = () => {}, axis = "step", ...plot }) {
  const xs = data[0], holder = make("div", { class: "plot", "aria-hidden": "true" });
  const start = (into, width, more, hooks) => new uPlot(optionsOf(width, { ...plot, axis, ...more }, hooks), data, into);
  const box = make("figure", { class: "chart", tabindex: "0", id: "chart-" + key, "aria-label": title + ". " + note },
    make("figcaption", {}, takeAway({ key, title, axis, rows, legend, start }), make("h3", {}, title), make("p", { class: "note" }, note)), holder, readout);
  let at = null, isReady = false, isTouched = false;
  const show = (x) => {
    at = x;
    if (x === null) delete box.dataset.at; else box.dataset.at = x;
    fill(x === null ? xs[xs.length - 1] : x);
  };
  const move = (isShared) => box.plot.setCursor({ left: box.plot.valToPos(at, "x"), top: 0 }, true, isShared);
  const ready = (plot_) => { isReady = true; if (at !== null) move(false); clicks(plot_, open); };
  const setCursor = ({ cursor }) => {
    const x = cursor.idx === null ? null : xs[cursor.idx];
    if (isReady && x !== at && !(x === null && isTouched)) show(x); // a finger leaves the canvas to tap on a value
  };
  box.addEventListener("pointerdown", (event) => { isTouched = event.pointerType === "touch"; });
  box.walk = (x) => { show(nearest(xs, x)); if (isReady) move(true); };
  box.addEventListener("keydown", (event) => {
    if (event.target === box && event.key === "Enter") open(at === null ? xs[xs.length - 1] : at, null);
    if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
    event.preventDefault();
    const index = at === null ? xs.length - 1 : xs.indexOf(at) + (event.key === "ArrowLeft" ? -1 : 1);
    box.walk(xs[Math.min(Math.max(index, 0), xs.length - 1)]);
  });
  // all readouts follow the shared place; a screen reader reads out the focused one only
  box.addEventListener("focusin", () => readout.setAttribute("aria-live", "polite"));
  box.addEventListener("focusout", () => readout.removeAttribute("aria-live"));
  whileShown(box, holder, (width) => start(holder, width, {}, { ready: [ready], setCursor: [setCursor] }));
  show(null);
  return box;
}

export function nearest(xs, x) {
  return xs.reduce((best, other) => Math.abs(other - x) < Math.abs(best - x) ? other : best);
}

// Draw all charts again: a canvas does not follow a change of theme by itself.
export function repaint() {
  for (const axis of Object.keys(AXES)) for (const plot of uPlot.sync(axis).plots) plot.redraw(false);
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

// A tap only moves the readout, whose values are links. While a range is set, a click waits for a second one.
function clicks(plot, open) {
  let from = null, waiting = null;
  plot.over.addEventListener("pointerdown", (event) => { from = event.pointerType === "touch" ? null : [event.clientX, event.clientY]; });
  plot.over.addEventListener("click", (event) => {
    clearTimeout(waiting);
    if (!from || event.detail > 1 || Math.hypot(event.clientX - from[0], event.clientY - from[1]) > CLICK_PIXELS) return;
    const { left, top } = plot.over.getBoundingClientRect();
    const [x, y] = [plot.posToVal(event.clientX - left, "x"), event.clientY - top];
    const isZoomed = Object.keys(WHOLE_RANGE).some((name) => place().settings[name]);
    if (isZoomed) waiting = setTimeout(() => open(x, y), DOUBLE_CLICK_MS); else open(x, y);
  });
}

// limits: [{ value }], drawn across; alarms: [x], drawn down; paint(plot): draws below both. size: 1, or another for a
// picture, which nobody points at. No text of a run goes to uPlot.
function optionsOf(width, { series, bands, range, y, yAxis, axis: name, size = 1, isPicture, limits = [], alarms = [], paint = () => {} }, hooks) {
  const room = AXES[name].isWhole ? 1 : 0.1, ends = (_, first, last) => first === last ? [first - room, last + room] : [first, last];
  const touch = (plot) => plot.over.addEventListener("pointermove", (event) => event.pointerType === "touch" && plot.setCursor({ left: event.offsetX, top: 0 }, true, true));
  const cursor = { y: false, points: { size: (_, index) => series[index].width > 1 ? 6 : 0 }, drag: { setScale: false, dist: CLICK_PIXELS },
    sync: { key: name, scales: ["x", null], filters: { pub: (kind) => kind === "mousemove" } },
    bind: { dblclick: () => () => go(WHOLE_RANGE) } };
  return {
    width, height: HEIGHT * size, padding: [8 * size, 8 * size, 0, 0], legend: { show: false }, series: series.map((each) => sized(each, size)), bands,
    scales: { x: { time: false, range: range || ends }, y },
    axes: [lineOf({ size: 24, ...(AXES[name].isWhole ? { incrs: WHOLE_NUMBERS } : {}) }, size), lineOf({ size: 52, space: 34, ...yAxis }, size)],
    cursor: isPicture ? { show: false } : cursor,
    hooks: { ...hooks, init: isPicture ? [] : [touch], setSelect: [(plot) => zoom(plot, name)], draw: [paint, (plot) => marks(plot, limits, alarms, size * devicePixelRatio)] },
  };
}

function sized(series, size) {
  if (size === 1 || !series.width) return series;
  return { ...series, width: series.width * size, dash: (series.dash || []).map((each) => each * size), points: { ...series.points, size: 5 * size } };
}

function lineOf({ size: room, space = 50, ...more }, size) {
  return { stroke: () => ink("soft"), font: 11 * size + "px system-ui, sans-serif", gap: 4 * size, size: room * size, space: space * size, ticks: { show: false }, grid: { stroke: () => ink("line"), width: 0.7 * size },
    values: (_, splits) => splits.map((value) => value === null ? "" : figure(Number(value.toPrecision(6)))), ...more };
}

// Show the dragged range only; the server answers it in more detail than it had before.
function zoom(plot, axis) {
  const { left, width } = plot.select, [low, high] = rangeNames(axis);
  const ends = [plot.posToVal(left, "x"), plot.posToVal(left + width, "x")];
  const [first, last] = AXES[axis].isWhole ? [Math.ceil(ends[0]), Math.floor(ends[1])] : ends.map((end) => Number(end.toPrecision(6)));
  plot.setSelect({ left: 0, width: 0 }, false);
  if (first <= last) go({ [low]: first, [high]: last });
}

function marks({ ctx, bbox, valToPos }, limits, alarms, ratio) {
  const { left, top, width, height } = bbox, stroke = (colour, dash, places) => {
    ctx.strokeStyle = colour;
    ctx.setLineDash(dash);
    ctx.beginPath();
    for (const place_ of places) {
      const [x, y, wide, high] = place_.map(Math.round);
      ctx.moveTo(x + 0.5, y + 0.5); // through the middle of a pixel, or the line is blurred over two
      ctx.lineTo(x + wide + 0.5, y + high + 0.5);
    }
    ctx.stroke();
  };
  ctx.save();
  ctx.beginPath();
  ctx.rect(left, top, width, height);
  ctx.clip();
  ctx.lineWidth = ratio;
  stroke(ink("warn", 0.5), [], alarms.map((x) => [valToPos(x, "x", true), top, 0, height]));
  stroke(ink("bad"), [4 * ratio, 3 * ratio], limits.map(({ value }) => [left, valToPos(value, "y", true), width, 0]));
  ctx.restore();
}
