// Lines over steps, with bands, smoothing and a readout whose names switch their lines on and off.

import { chart, ink, nearest } from "./chart.js";
import { figure, make, number } from "./dom.js";

export const DASHES = { solid: [], dashed: [6, 3], dotted: [2, 3], dashdot: [7, 3, 2, 3] };
const FEW = 30; // points that are marked one by one
const hidden = new Set(); // lines that were switched off stay so when the chart is drawn again

// lines: [{ label, colour, dash, steps, values, lows, highs }]; steps and values are not empty.
export function curves({ lines, smooth = 0, isLog = false, key, ...words }) {
  const drawn = lines.map((line) => ({ ...line, id: key + " " + line.label, smoothed: smoothed(line.values, line.values.length > 2 ? smooth : 0) }));
  const parts = drawn.flatMap((line) => partsOf(line, smooth));
  const readout = readoutOf(drawn, smooth, words, (line) => {
    if (!hidden.delete(line.id)) hidden.add(line.id);
    parts.forEach((part, place) => part.line === line && box.plot.setSeries(place + 1, { show: !hidden.has(line.id) }));
  });
  const series = parts.map(({ line, column, ...style }) => ({ ...style, show: !hidden.has(line.id) }));
  const bands = parts.flatMap((part, place) => part.isHigh ? [{ series: [place + 1, place + 2], fill: () => ink(part.line.colour, 0.15) }] : []);
  const box = chart({ ...words, key, ...readout, series: [{}, ...series], bands, y: scaleOf(drawn, words.limits || [], isLog),
    data: uPlot.join(parts.map((part) => [part.line.steps, part.column])) });
  return box;
}

// An exponential mean that starts at the first value; null stays null. Two points, such as before and after, are not noise.
export function smoothed(values, share) {
  if (!share) return values;
  let mean = 0, weight = 0;
  return values.map((value) => {
    if (value === null) return null;
    mean = share * mean + (1 - share) * value;
    weight = share * weight + (1 - share);
    return mean / weight;
  });
}

// What is drawn of a line: its band, its values as logged where they are smoothed, and the line itself.
function partsOf(line, smooth) {
  const points = { show: line.steps.length < FEW, size: 5, fill: () => ink(line.colour) }, none = { show: false };
  const hasBand = line.lows && line.lows.some((low, place) => low !== null && low !== line.highs[place]);
  return [
    ...(hasBand ? [{ line, column: line.highs, isHigh: true, width: 0, points: none }, { line, column: line.lows, width: 0, points: none }] : []),
    ...(smooth ? [{ line, column: line.values, width: 1, stroke: () => ink(line.colour, 0.3), points: none }] : []),
    { line, column: line.smoothed, width: 1.7, stroke: () => ink(line.colour), dash: DASHES[line.dash], points },
  ];
}

function scaleOf(lines, limits, isLog) {
  const values = lines.flatMap((line) => [...line.values, ...(line.lows || [])]).filter((value) => value !== null);
  const isLogarithmic = isLog && values.length > 0 && values.every((value) => value > 0) && limits.every((limit) => limit.value > 0);
  const range = (_, low, high) => {
    const ends = [low, high, ...limits.map((limit) => limit.value)].filter((value) => value !== null);
    const least = Math.min(...ends), most = Math.max(...ends);
    if (!ends.length || (least === 0 && most === 0)) return isLogarithmic ? [0.1, 1] : [0, 1];
    return isLogarithmic ? uPlot.rangeLog(least, most, 10, false) : uPlot.rangeNum(least, most, 0.1, true);
  };
  return { distr: isLogarithmic ? 3 : 1, range };
}

function readoutOf(lines, smooth, { limits = [], alarms = [] }, toggle) {
  const step = make("li", { class: "step" }), values = lines.map(() => make("span"));
  const items = lines.map((line, place) => make("li", { class: "key " + line.colour, "data-label": line.label }, nameOfLine(line, lines.length, toggle), " ", values[place]));
  const readout = make("ul", { class: "readout" }, step, items, limits.map((limit) => make("li", { class: "limit" }, "alarm limit ", number(limit.value))));
  const fill = (at) => {
    step.replaceChildren("step " + figure(at) + (alarms.includes(at) ? ", an alarm fired" : ""));
    lines.forEach((line, place) => {
      const own = nearest(line.steps, at), index = line.steps.indexOf(own);
      values[place].replaceChildren(number(line.values[index]), ...(smooth ? [" ~ ", number(line.smoothed[index])] : []), own === at ? "" : " (step " + figure(own) + ")");
    });
  };
  return { readout, fill };
}

function nameOfLine(line, numLines, toggle) {
  if (numLines < 2) return line.label;
  const button = make("button", { type: "button", class: "toggle", id: "line " + line.id, title: "show or hide this line", "aria-pressed": String(!hidden.has(line.id)),
    onclick: () => { toggle(line); button.setAttribute("aria-pressed", String(!hidden.has(line.id))); } }, line.label);
  return button;
}
