// Lines over steps, hours or tokens, with bands, smoothing and a readout whose names switch their lines on and off.

import { AXES } from "./axes.js";
import { chart, nearest } from "./chart.js";
import { figure, make, number, percent } from "./dom.js";
import { episodesBehind, wordsBehind } from "./drill.js";
import { ink } from "./ink.js";
import { countOf } from "./seeds.js";
import { DASHES } from "./take_away.js";

const FEW = 30; // points that are marked one by one
const hidden = new Set(); // lines that were switched off stay so when the chart is drawn again

// lines: [{ label, run, name, colour, dash, xs, steps, values, lows, highs }]; xs and values are not empty.
export function curves({ lines, smooth = 0, isLog = false, isShare = false, axis = "step", key, ...words }) {
  const drawn = lines.map((line) => ({ ...line, id: key + " " + line.label, smoothed: smoothed(line.values, line.values.length > 2 ? smooth : 0) }));
  const parts = drawn.flatMap((line) => partsOf(line, smooth));
  const readout = readoutOf(drawn, smooth, { ...words, axis, valueOf: isShare ? percent : number }, (line) => {
    if (!hidden.delete(line.id)) hidden.add(line.id);
    parts.forEach((part, place) => {
      if (part.line !== line) return;
      series[place].show = !hidden.has(line.id);
      box.plot.setSeries(place + 1, { show: series[place].show });
    });
  });
  const series = parts.map(({ line, column, ...style }) => ({ ...style, show: !hidden.has(line.id) }));
  const shown = () => drawn.filter((line) => !hidden.has(line.id));
  const bands = parts.flatMap((part, place) => part.isHigh ? [{ series: [place + 1, place + 2], fill: () => ink(part.line.colour, 0.15) }] : []);
  const box = chart({ ...words, key, axis, ...readout, series: [{}, ...series], bands, y: scaleOf(drawn, words.limits || [], isLog), yAxis: isShare ? { values: shares } : {},
    data: uPlot.join(parts.map((part) => [part.line.xs, part.column])), legend: shown, rows: () => shown().flatMap((line) => rowsOf(line, smooth)),
    open: (x, y) => openNearest(shown(), x, y, box.plot) });
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

// What is drawn of a line: its band, its values as logged where they are smoothed, and the line itself. Of what is
// measured before and after training only, the points are drawn: a line between them would invent a course.
function partsOf(line, smooth) {
  const points = { show: line.xs.length < FEW, size: 5, fill: () => ink(line.colour) }, none = { show: false };
  if (line.name.startsWith("heldout/")) return [{ line, column: line.values, width: 1.7, stroke: () => ink(line.colour), paths: () => null, points: { ...points, show: true, size: 9 } }];
  const hasBand = line.lows && line.lows.some((low, place) => low !== null && low !== line.highs[place]);
  return [
    ...(hasBand ? [{ line, column: line.highs, isHigh: true, width: 0, points: none }, { line, column: line.lows, width: 0, points: none }] : []),
    ...(smooth ? [{ line, column: line.values, width: 1, stroke: () => ink(line.colour, 0.3), points: none }] : []),
    { line, column: line.smoothed, width: 1.7, stroke: () => ink(line.colour), dash: DASHES[line.dash], points },
  ];
}

// The points of a line for CSV; where it is smoothed, both what was logged and what is drawn over it.
function rowsOf(line, smooth) {
  const rows = line.xs.map((x, index) => [x, line.run, line.name, line.values[index], line.lows[index], line.highs[index]]);
  const means = smooth && line.smoothed !== line.values ? line.xs.map((x, index) => [x, line.run, line.name + ", smoothing " + smooth, line.smoothed[index], null, null]) : [];
  return [...rows, ...means];
}

// Opens the episodes behind the line's point that is nearest to x and, of several lines, to the height y in pixels.
function openNearest(lines, x, y, plot) {
  const found = lines.map((line) => {
    const index = line.xs.indexOf(nearest(line.xs, x)), value = line.smoothed[index];
    const across = Math.abs(plot.valToPos(line.xs[index], "x") - plot.valToPos(x, "x"));
    return { line, index, far: y === null ? across : Math.hypot(across, value === null ? 1e6 : plot.valToPos(value, "y") - y) };
  });
  if (!found.length) return;
  const { line, index } = found.reduce((best, each) => each.far < best.far ? each : best);
  location.hash = episodesBehind(line, index);
}

function shares(_, splits) {
  return splits.map((value) => value === null ? "" : figure(Number((100 * value).toPrecision(6))) + "%");
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

function readoutOf(lines, smooth, { limits = [], alarms = [], axis, valueOf }, toggle) {
  const where = make("li", { class: "step" }), values = lines.map(() => make("span"));
  const items = lines.map((line, place) => make("li", { class: "key " + line.colour, "data-label": line.label }, nameOfLine(line, lines.length, toggle), " ", values[place]));
  const readout = make("ul", { class: "readout" }, where, items, limits.map((limit) => make("li", { class: "limit" }, "alarm limit ", valueOf(limit.value))));
  const fill = (at) => {
    where.replaceChildren(AXES[axis].words(at) + (alarms.includes(at) ? ", an alarm fired" : ""));
    lines.forEach((line, place) => {
      const own = nearest(line.xs, at), index = line.xs.indexOf(own);
      const step = line.steps && (axis !== "step" || own !== at) ? " (step " + figure(line.steps[index]) + ")" : "";
      values[place].replaceChildren(behind(line, index, valueOf(line.values[index])), ...(smooth ? [" ~ ", valueOf(line.smoothed[index])] : []), step, countOf(line, index));
    });
  };
  return { readout, fill };
}

// A value leads to its episodes.
function behind(line, index, value) {
  return make("a", { id: "open " + line.id, href: episodesBehind(line, index), "aria-label": line.label + " " + value.textContent + ": " + wordsBehind(line, index) }, value);
}

function nameOfLine(line, numLines, toggle) {
  if (numLines < 2) return line.label;
  const button = make("button", { type: "button", class: "toggle", id: "line " + line.id, title: "show or hide this line", "aria-pressed": String(!hidden.has(line.id)),
    onclick: () => { toggle(line); button.setAttribute("aria-pressed", String(!hidden.has(line.id))); } }, line.label);
  return button;
}
