// Takes lines over steps, gives a chart: axes, hover and arrow keys for values, limits and alarms drawn in.

import { brief, draw, figure, make, number } from "./dom.js";

const WIDTH = 420, HEIGHT = 200, LEFT = 52, RIGHT = 8, TOP = 8, BOTTOM = 22;

// lines: [{ label, colour, dash, steps, values, lows, highs }]; limits: [{ value, label }]; ticks: [step].
export function chart({ title, note, lines, limits = [], ticks = [], smooth = 0, key }) {
  const drawn = lines.filter((line) => line.steps.length).map((line) => ({ ...line, smoothed: smoothed(line.values, line.values.length > 2 ? smooth : 0) }));
  const readout = make("ul", { class: "readout", "aria-live": "polite" });
  const box = make("figure", { class: "chart", tabindex: "0", id: "chart-" + key, "aria-label": title + ". " + note },
    make("figcaption", {}, make("h3", {}, title), make("p", { class: "note" }, note)));
  const scale = scaleOf(drawn, limits);
  const picture = draw("svg", { viewBox: "0 0 " + WIDTH + " " + HEIGHT, role: "img", "aria-hidden": "true" });
  picture.append(...axes(scale), ...ticks.filter((step) => step >= scale.first && step <= scale.last).map((step) =>
    draw("line", { class: "alarm", x1: scale.x(step), x2: scale.x(step), y1: TOP, y2: HEIGHT - BOTTOM })));
  for (const limit of limits) {
    picture.append(draw("line", { class: "limit", x1: LEFT, x2: WIDTH - RIGHT, y1: scale.y(limit.value), y2: scale.y(limit.value) }),
      draw("text", { class: "limit", x: WIDTH - RIGHT, y: scale.y(limit.value) - 3, "text-anchor": "end" }, limit.label));
  }
  for (const line of drawn) picture.append(...pathsOf(line, scale, smooth));
  const cursor = draw("line", { class: "cursor", y1: TOP, y2: HEIGHT - BOTTOM, visibility: "hidden" });
  picture.append(cursor);
  box.append(picture, readout);

  const steps = [...new Set(drawn.flatMap((line) => line.steps))].sort((a, b) => a - b);
  let at = null;
  const show = (step) => {
    at = step;
    if (step === null) delete box.dataset.at; else box.dataset.at = step;
    cursor.setAttribute("visibility", step === null ? "hidden" : "visible");
    if (step !== null) { cursor.setAttribute("x1", scale.x(step)); cursor.setAttribute("x2", scale.x(step)); }
    fill(readout, drawn, step === null ? steps[steps.length - 1] : step, smooth);
  };
  const under = (event) => {
    const frame = picture.getBoundingClientRect();
    const step = scale.step((event.clientX - frame.left) / frame.width * WIDTH);
    show(nearest(steps, step));
  };
  picture.addEventListener("pointermove", under);
  picture.addEventListener("pointerdown", under);
  picture.addEventListener("pointerleave", () => show(null));
  box.addEventListener("keydown", (event) => {
    if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
    event.preventDefault();
    const place = at === null ? steps.length - 1 : steps.indexOf(at) + (event.key === "ArrowLeft" ? -1 : 1);
    show(steps[Math.min(Math.max(place, 0), steps.length - 1)]);
  });
  box.walk = (step) => show(nearest(steps, step));
  show(null);
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

export function nearest(steps, step) {
  let best = steps[0];
  for (const each of steps) if (Math.abs(each - step) < Math.abs(best - step)) best = each;
  return best;
}

function fill(readout, lines, step, smooth) {
  readout.replaceChildren(make("li", { class: "step" }, "step " + figure(step)), ...lines.map((line) => {
    let place = line.steps.indexOf(step);
    if (place < 0) place = line.steps.indexOf(nearest(line.steps, step));
    const own = line.steps[place] === step ? "" : " (step " + figure(line.steps[place]) + ")";
    return make("li", { class: "key " + line.colour + " " + line.dash, "data-label": line.label },
      line.label + " ", number(line.values[place]), smooth ? [" ~ ", number(line.smoothed[place])] : "", own);
  }));
}

function scaleOf(lines, limits) {
  const finite = (list) => list.filter((value) => value !== null && Number.isFinite(value));
  const values = [...lines.flatMap((line) => [...finite(line.lows || []), ...finite(line.highs || []), ...finite(line.values)])];
  const steps = lines.flatMap((line) => [line.steps[0], line.steps[line.steps.length - 1]]);
  let low = Math.min(...values), high = Math.max(...values);
  for (const limit of limits) { low = Math.min(low, limit.value); high = Math.max(high, limit.value); }
  if (!Number.isFinite(low)) { low = 0; high = 1; }
  if (low === 0 && high === 0) high = 1;
  if (low === high) { const room = Math.abs(low) * 0.1 || 0.5; low -= room; high += room; }
  const room = (high - low) * 0.05;
  low = low >= 0 && low - room < 0 ? 0 : low - room;
  high += room;
  const first = steps.length ? Math.min(...steps) : 0, last = steps.length ? Math.max(...steps) : 1;
  const span = Math.max(last - first, 1);
  return {
    low, high, first, last,
    x: (step) => LEFT + (step - first) / span * (WIDTH - LEFT - RIGHT),
    y: (value) => HEIGHT - BOTTOM - (value - low) / (high - low) * (HEIGHT - TOP - BOTTOM),
    step: (x) => first + (x - LEFT) / (WIDTH - LEFT - RIGHT) * span,
  };
}

export function nice(low, high, most) {
  const rough = (high - low) / most, power = 10 ** Math.floor(Math.log10(rough));
  const width = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough);
  const found = [];
  for (let value = Math.ceil(low / width) * width; value <= high + width / 1e6; value += width) found.push(Math.abs(value) < width / 1e6 ? 0 : value);
  return found;
}

function axes(scale) {
  const marks = [];
  for (const value of nice(scale.low, scale.high, 4)) {
    marks.push(draw("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: scale.y(value), y2: scale.y(value) }),
      draw("text", { class: "axis", x: LEFT - 6, y: scale.y(value) + 4, "text-anchor": "end" }, figure(Number(value.toPrecision(6)))));
  }
  const steps = scale.last > scale.first ? nice(scale.first, scale.last, 5).filter(Number.isInteger) : [scale.first];
  for (const step of steps) marks.push(draw("text", { class: "axis", x: scale.x(step), y: HEIGHT - 6, "text-anchor": "middle" }, figure(step)));
  return marks;
}

function pathsOf(line, scale, smooth) {
  const path = (values) => {
    let words = "", is_down = false;
    values.forEach((value, place) => {
      if (value === null) { is_down = false; return; }
      words += (is_down ? "L" : "M") + scale.x(line.steps[place]).toFixed(1) + " " + scale.y(value).toFixed(1);
      is_down = true;
    });
    return words;
  };
  const found = [];
  const isBand = line.lows && line.lows.some((low, place) => low !== null && low !== line.highs[place]);
  if (isBand) {
    const both = line.steps.map((step, place) => [step, line.lows[place], line.highs[place]]).filter((each) => each[1] !== null);
    const round = [...both.map((each) => [each[0], each[2]]), ...both.reverse().map((each) => [each[0], each[1]])];
    found.push(draw("polygon", { class: "band " + line.colour, points: round.map(([step, value]) => scale.x(step).toFixed(1) + "," + scale.y(value).toFixed(1)).join(" ") }));
  }
  if (smooth) found.push(draw("path", { class: "line faint " + line.colour, d: path(line.values) }));
  found.push(draw("path", { class: "line " + line.colour + " " + line.dash, d: path(line.smoothed) }));
  if (line.steps.length < 3) line.steps.forEach((step, place) => line.values[place] !== null &&
    found.push(draw("circle", { class: "dot " + line.colour, cx: scale.x(step), cy: scale.y(line.values[place]), r: 3 })));
  return found;
}

// A histogram over steps: one column a step, darker where more tokens lie, with the boundaries drawn.
export function heat({ title, note, edges, columns, bounds, key }) {
  const readout = make("ul", { class: "readout", "aria-live": "polite" });
  const box = make("figure", { class: "chart", tabindex: "0", id: "chart-" + key, "aria-label": title + ". " + note },
    make("figcaption", {}, make("h3", {}, title), make("p", { class: "note" }, note)));
  const [low, high] = [Math.log(edges[0]), Math.log(edges[edges.length - 1])];
  const room = (high - low) / (edges.length - 1);
  const y = (value) => HEIGHT - BOTTOM - (value - low + room) / (high - low + 2 * room) * (HEIGHT - TOP - BOTTOM);
  const wide = (WIDTH - LEFT - RIGHT) / columns.length;
  const picture = draw("svg", { viewBox: "0 0 " + WIDTH + " " + HEIGHT, role: "img", "aria-hidden": "true" });
  columns.forEach((column, place) => {
    const total = column.counts.reduce((sum, each) => sum + each, 0) || 1;
    column.counts.forEach((count, bin) => {
      if (!count) return;
      const top = y(bin < edges.length ? Math.log(edges[bin]) : high + room), bottom = y(bin ? Math.log(edges[bin - 1]) : low - room);
      const shade = Math.max(1, Math.ceil(9 * (1 + Math.log10(count / total) / 4)));
      picture.append(draw("rect", { class: "shade" + shade, x: LEFT + place * wide, y: top, width: Math.max(wide - 0.3, 0.5), height: bottom - top }));
    });
  });
  for (const value of [0.25, 0.5, 1, 2, 4]) picture.append(draw("text", { class: "axis", x: LEFT - 6, y: y(Math.log(value)) + 4, "text-anchor": "end" }, figure(value)));
  for (const bound of bounds) {
    if (!(bound > 0)) continue;
    const at = Math.min(Math.max(y(Math.log(bound)), TOP), HEIGHT - BOTTOM);
    picture.append(draw("line", { class: "limit", "data-bound": bound, x1: LEFT, x2: WIDTH - RIGHT, y1: at, y2: at }));
  }
  const ends = [columns[0].first, columns[columns.length - 1].last];
  picture.append(draw("text", { class: "axis", x: LEFT, y: HEIGHT - 6 }, figure(ends[0])), draw("text", { class: "axis", x: WIDTH - RIGHT, y: HEIGHT - 6, "text-anchor": "end" }, figure(ends[1])));
  const show = (place) => {
    const column = columns[place], total = column.counts.reduce((sum, each) => sum + each, 0) || 1;
    const steps = column.first === column.last ? "step " + figure(column.first) : "steps " + figure(column.first) + "–" + figure(column.last);
    const outside = column.counts.reduce((sum, count, bin) => {
      const middle = bin === 0 ? edges[0] / 2 : bin === edges.length ? edges[bin - 1] * 2 : Math.sqrt(edges[bin - 1] * edges[bin]);
      return sum + (middle < bounds[0] || middle > bounds[1] ? count : 0);
    }, 0);
    readout.replaceChildren(make("li", { class: "step" }, steps), make("li", { "data-label": "tokens" }, "tokens ", number(total)),
      make("li", {}, "in bins past a boundary ", number(outside)));
  };
  let at = columns.length - 1;
  box.walk = (place) => { box.dataset.at = at = Math.min(Math.max(place, 0), columns.length - 1); show(at); };
  picture.addEventListener("pointermove", (event) => {
    const frame = picture.getBoundingClientRect();
    const place = Math.floor(((event.clientX - frame.left) / frame.width * WIDTH - LEFT) / wide);
    box.walk(place);
  });
  picture.addEventListener("pointerleave", () => { box.walk(columns.length - 1); delete box.dataset.at; });
  box.addEventListener("keydown", (event) => {
    if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
    event.preventDefault();
    box.walk(at + (event.key === "ArrowLeft" ? -1 : 1));
  });
  show(at);
  box.append(picture, readout);
  return box;
}

// Values with their intervals, one row a label: dots on a line from 0 to 1.
export function intervals(rows, key) {
  const high = 28, left = 150, wide = 420;
  const picture = draw("svg", { viewBox: "0 0 " + wide + " " + (rows.length * high + 24), role: "img", id: "intervals-" + key, class: "intervals" });
  const x = (value) => left + value * (wide - left - 16);
  for (const value of [0, 0.5, 1]) picture.append(draw("line", { class: "grid", x1: x(value), x2: x(value), y1: 0, y2: rows.length * high }),
    draw("text", { class: "axis", x: x(value), y: rows.length * high + 16, "text-anchor": "middle" }, figure(value)));
  rows.forEach((row, place) => {
    const middle = place * high + high / 2;
    picture.append(draw("text", { class: "axis", x: left - 8, y: middle + 4, "text-anchor": "end" }, brief(row.label, 22)));
    row.estimates.forEach((estimate, number_) => {
      if (!estimate) return;
      const at = middle + (number_ - (row.estimates.length - 1) / 2) * 9;
      if (estimate.low !== null) picture.append(draw("line", { class: "line c" + (number_ + 1), x1: x(estimate.low), x2: x(estimate.high), y1: at, y2: at }));
      picture.append(draw("circle", { class: "dot c" + (number_ + 1), cx: x(estimate.value), cy: at, r: 4 }, draw("title", {}, brief(row.label) + ": " + figure(estimate.value))));
    });
  });
  return picture;
}
