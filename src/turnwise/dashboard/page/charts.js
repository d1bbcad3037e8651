// Pictures as SVG: lines with labels at their ends, sparklines, dumbbells, slopes and intervals. Text keeps its size at any width.
// All charts of a grid share the pointed place. Dragging over one sets the view's range, a double click clears it, a click
// and Enter open what is behind the point.

import { AXES, rangeNames, WHOLE_RANGE } from "./axes.js";
import { brief, draw, isKnown, make, num, pct, plural, points } from "./dom.js";
import { episodesBehind, wordsBehind } from "./drill.js";
import { morph } from "./morph.js";
import { go, place } from "./place.js";
import { takeAway } from "./take_away.js";

const CLICK_PIXELS = 5, DOUBLE_CLICK_MS = 250, FEW = 30;
const hidden = new Set(); // lines that were switched off stay so when the chart is drawn again

// A box whose picture is painted for its width, and again whenever that or what it shows changes.
export function sized(attributes, paint) {
  const box = make("div", attributes);
  let wide = 0;
  const fill = () => { const fresh = box.given(wide, box), [old] = box.children; if (old) morph(old, fresh); else box.append(fresh); };
  box.given = paint;
  box.renew = (next) => { box.given = next; if (wide) fill(); };
  new ResizeObserver(() => { const now = Math.round(box.clientWidth); if (now && now !== wide) { wide = now; fill(); } }).observe(box);
  return box;
}

export function pathOf(xs, ys, X, Y) {
  let isOpen = false;
  return xs.map((x, i) => {
    if (!isKnown(ys[i])) { isOpen = false; return ""; }
    const step = (isOpen ? "L" : "M") + X(x).toFixed(1) + " " + Y(ys[i]).toFixed(1);
    isOpen = true;
    return step;
  }).join("");
}

// A mean over a window around each point, cut off at both ends: the newest point is a mean too, never one noisy step.
export function smooth(values, width) {
  const half = Math.floor(width / 2);
  return values.map((value, i) => {
    const near = isKnown(value) ? values.slice(Math.max(0, i - half), i + half + 1).filter(isKnown) : [];
    return near.length ? near.reduce((a, b) => a + b, 0) / near.length : null;
  });
}

export function windowOf(num_) {
  return Math.max(3, 2 * Math.round(num_ / 16) + 1);
}

// Labels at a common edge: moved apart until none touches another, the order kept.
function spread(labels, gap, low, high) {
  const sorted = [...labels].sort((a, b) => a.y - b.y);
  for (let round = 0; round < 40; round += 1) for (let i = 1; i < sorted.length; i += 1) {
    const lack = gap - (sorted[i].y - sorted[i - 1].y);
    if (lack > 0) { sorted[i - 1].y -= lack / 2; sorted[i].y += lack / 2; }
  }
  const over = sorted.length ? sorted[sorted.length - 1].y - high : 0;
  if (over > 0) for (const each of sorted) each.y -= over;
  const under = sorted.length ? low - sorted[0].y : 0;
  if (under > 0) for (const each of sorted) each.y += under;
  return labels;
}

// About `most` round places from low to high.
function ticksOf(low, high, most) {
  const rough = (high - low) / most, size = 10 ** Math.floor(Math.log10(rough)), step = size * [1, 2, 5, 10].find((each) => each * size >= rough);
  const ticks = [];
  for (let at = Math.ceil(low / step - 1e-9); at * step <= high + step * 1e-9; at += 1) ticks.push(Number((at * step).toPrecision(12)));
  return ticks;
}

function logTicks(low, high) {
  if (high / low > 100) return ticksOf(Math.log10(low), Math.log10(high), 4).map((each) => 10 ** each);
  return [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100].map((each) => each * 10 ** Math.round(Math.log10(Math.sqrt(low * high)))).filter((each) => each >= low && each <= high);
}

function rangeOfValues(drawn, ends, limits, isLog) {
  const values = [...drawn.flatMap((line) => [...line.values, ...(line.lows || []), ...(line.highs || [])]), ...ends.flatMap((end) => [end.low, end.high])].filter(isKnown);
  const isLogarithmic = isLog && values.length > 0 && values.every((value) => value > 0);
  let low = values.length ? Math.min(...values.slice(0, 5000)) : 0, high = values.length ? Math.max(...values.slice(0, 5000)) : 1;
  for (const { at } of limits) if (at <= high + 1.5 * (high - low) + 1e-12 && at >= low - 1.5 * (high - low) - 1e-12) [low, high] = [Math.min(low, at), Math.max(high, at)];
  if (isLogarithmic) return { low: low / 1.1, high: high * 1.1, isLogarithmic };
  if (low > 0 && low < high / 2) low = 0;
  if (high - low < 1e-12) [low, high] = low === 0 ? [0, 1] : [low - Math.abs(low) / 2, high + Math.abs(high) / 2];
  return { low: low < 0 ? low - 0.05 * (high - low) : low, high: high + 0.05 * (high - low), isLogarithmic };
}

// drawn: [{ run, name, label, sub, colour, width, dash, xs, steps, values, means, lows, highs, isDots }]; ends: [{ side, value, low,
// high, label, sub }], measured before or after; events: [{ x, words }]; span: the whole run, so that the axis never grows while it
// goes on; limits: [{ at, words }]; under(X, Y): what is drawn below the lines; tip(x): lines of its own for the pointed place.
export function lines({ key, title, note, drawn: given, ends = [], events = [], span, y = null, say = num, height = 300, right = 108, left = 44, limits = [], axis = "step", isLog = false, more = [], under = null, tip = null, xs = null, open = null, lead = "", describe = "", start = 0 }) {
  const drawn = given.filter((line) => !hidden.has(key + " " + line.label)), places = xs || [...new Set(drawn.flatMap((line) => line.xs))].sort((a, b) => a - b);
  const box = make("figure", { class: "chart", id: "chart-" + key, tabindex: "0", role: "group", "aria-label": title + ". " + (describe || describedBy(given, say)) });
  const said = make("div", { class: "tip", hidden: true, "data-own": "" });
  const frame = { key, drawn, places, ends, events, limits, under, say, axis, height, right, left, start, end: Math.max(span, ...(places.length ? [places[places.length - 1]] : [])), ...(y ? { low: y[0], high: y[1], isLogarithmic: isLog && y[0] > 0 } : rangeOfValues(drawn, ends, limits, isLog)) };
  // the box of the page, which may be an older one than this: it stays when the chart is drawn anew
  const show = (shown, x, isShared) => point(shown, frame, x, tip, isShared);
  const rows = () => drawn.flatMap(rowsOfLine);
  const picture = sized({ class: "picture" }, (wide, holder) => paintLines(frame, wide, show, holder.closest(".chart") || box, open));
  box.append(make("figcaption", {}, make("h3", {}, title), note ? make("span", {}, note) : "", lead, takeAway({ key, title, axis, rows, paint: (wide) => paintLines(frame, wide, () => {}, null, null), lines: given.map((line) => line.label), hidden, more })), picture, said);
  for (const [kind, listener] of Object.entries({
    keydown: (event) => walk(event, frame, show, open), blur: (event) => show(event.currentTarget, null, true), point: (event) => show(event.currentTarget, event.detail, false),
    focusin: (event) => event.currentTarget.querySelector(".tip").setAttribute("aria-live", "polite"), focusout: (event) => event.currentTarget.querySelector(".tip").removeAttribute("aria-live"),
  })) { box.heard = { ...box.heard, [kind]: listener }; box.addEventListener(kind, (event) => box.heard[kind](event)); }
  return box;
}

function describedBy(drawn, say) {
  return drawn.slice(0, 8).map((line) => { const known = line.values.filter(isKnown); return line.label + " from " + say(known[0]) + " to " + say(known[known.length - 1]); }).join("; ") + ".";
}

function rowsOfLine(line) {
  const rows = line.xs.map((x, i) => [x, line.run, line.name, line.values[i], (line.lows || [])[i], (line.highs || [])[i]]);
  return line.means ? [...rows, ...line.xs.map((x, i) => [x, line.run, line.name + ", mean over neighbours", line.means[i], null, null])] : rows;
}

function scales({ start, end, low, high, isLogarithmic, ends, events, height, left, right }, wide) {
  const isNarrow = wide < 520, r = isNarrow ? Math.min(right, 84) : right, l = isNarrow ? 34 : left, top = events.length ? 22 : 8, floor = height - 26, pad = ends.length ? 26 : 6;
  const share = isLogarithmic ? (value) => (Math.log(value) - Math.log(low)) / (Math.log(high) - Math.log(low)) : (value) => (value - low) / (high - low);
  return { l, r, top, floor, pad, isNarrow, X: (x) => l + pad + (x - start) / Math.max(end - start, 1e-9) * (wide - l - r - 2 * pad), Y: (value) => floor - share(value) * (floor - top),
    x: (at) => start + (at - l - pad) / (wide - l - r - 2 * pad) * (end - start) };
}

function paintLines(frame, wide, show, box, open) {
  const { drawn, places, ends, events, limits, under, say, axis, height, start, end, low, high, isLogarithmic } = frame, scale = scales(frame, wide), { l, r, top, floor, pad, isNarrow, X, Y } = scale;
  const svg = draw("svg", { viewBox: "0 0 " + wide + " " + height, height, "aria-hidden": "true" }), last = places.length ? places[places.length - 1] : start;
  const ticks = isLogarithmic ? logTicks(low, high) : ticksOf(low, high, height < 200 ? 2 : 4);
  for (const t of ticks.filter((each) => Number.isFinite(Y(each)))) svg.append(draw("line", { class: t === low ? "base" : "rule", x1: l, x2: wide - r, y1: Math.round(Y(t)), y2: Math.round(Y(t)) }), draw("text", { x: l - 8, y: Y(t) + 4, "text-anchor": "end" }, say(Number(t.toPrecision(6)))));
  if (last < end && places.length) svg.append(draw("rect", { class: "future", x: X(last) + 1, width: Math.max(0, X(end) - X(last) + pad - 1), y: top, height: floor - top }), X(end) - X(last) > 110 && axis === "step" ? draw("text", { x: (X(last) + X(end) + pad) / 2, y: floor - 10, "text-anchor": "middle" }, "still to play") : "");
  const marks = ticksOf(start, end, isNarrow ? 3 : 6).filter((t) => AXES[axis].isWhole ? Number.isInteger(t) : true), unit = axis === "step" ? "step " : "";
  marks.forEach((t, i) => svg.append(draw("text", { x: X(t), y: height - 8, "text-anchor": "middle" }, (i ? "" : unit) + num(t) + (i === marks.length - 1 && !unit ? " " + AXES[axis].unit : ""))));
  if (under) svg.append(...under(X, Y));
  for (const { at, words } of limits) if (at >= low && at <= high) svg.append(draw("line", { class: "limit", x1: l, x2: wide - r, y1: Y(at), y2: Y(at) }), draw("text", { x: wide - r - 4, y: Y(at) - 5, "text-anchor": "end", class: "halo crit-text" }, words));
  svg.append(...eventsOf(events, scale, wide));
  for (const line of drawn) svg.append(...drawnLine(line, X, Y));
  svg.append(...endsOf(ends, drawn, scale, frame, wide, last));
  svg.append(draw("line", { class: "hover", y1: top, y2: floor, visibility: box && box.at !== undefined ? "visible" : "hidden", x1: box && box.at !== undefined ? X(box.at) : 0, x2: box && box.at !== undefined ? X(box.at) : 0 }));
  if (box) listenTo(svg, scale, frame, show, box, open);
  return svg;
}

// Words at the top; two that are close stack, further ones are counted.
function eventsOf(events, { X, top, floor, r }, wide) {
  const clusters = [];
  for (const event of [...events].sort((a, b) => a.x - b.x)) {
    const x = X(event.x), near = clusters[clusters.length - 1];
    if (near && x - near.xs[near.xs.length - 1] < 60) { near.xs.push(x); near.said.push(event.words); } else clusters.push({ xs: [x], said: [event.words] });
  }
  return clusters.flatMap(({ xs, said }) => {
    const isLeft = xs[0] > wide - r - 130, rows = said.length > 2 ? [said[0], "and " + (said.length - 1) + " more"] : said;
    return [...xs.map((x) => draw("line", { class: "event", x1: x, x2: x, y1: top - 4, y2: floor })),
      ...rows.map((words, row) => draw("text", { x: xs[0] + (isLeft ? -5 : 5), y: top - 8 + row * 13, "text-anchor": isLeft ? "end" : "start", class: "halo" }, brief(words, 40)))];
  });
}

function drawnLine({ xs, values, means, lows, highs, colour, width = 2, dash, isDots, isCells }, X, Y) {
  if (isCells) return []; // its picture lies under the lines; here are its numbers
  const found = [], shown = means || values, stroke = { stroke: colour, "stroke-dasharray": dash };
  const hasBand = lows && lows.some((low, i) => isKnown(low) && low !== highs[i]);
  if (hasBand) {
    const known = xs.map((_, i) => i).filter((i) => isKnown(lows[i]));
    found.push(draw("path", { fill: colour, opacity: 0.15, d: known.map((i, at) => (at ? "L" : "M") + X(xs[i]).toFixed(1) + " " + Y(highs[i]).toFixed(1)).join("") + [...known].reverse().map((i) => "L" + X(xs[i]).toFixed(1) + " " + Y(lows[i]).toFixed(1)).join("") + "Z" }));
  }
  if (means) found.push(draw("path", { class: "raw", d: pathOf(xs, values, X, Y), stroke: colour }));
  if (!isDots) found.push(draw("path", { class: "mean", d: pathOf(xs, shown, X, Y), "stroke-width": width, ...stroke }));
  const alone = (i) => isKnown(shown[i]) && !isKnown(shown[i - 1]) && !isKnown(shown[i + 1]);
  xs.forEach((x, i) => { if (isKnown(shown[i]) && (isDots || (xs.length < FEW && alone(i)))) found.push(draw("circle", { cx: X(x), cy: Y(shown[i]), r: isDots ? 4.5 : 3, fill: colour })); });
  return found;
}

// The labels at the lines' ends, and what was measured before and after.
function endsOf(ends, drawn, { X, Y, l, r, pad, top, floor }, { end, start, say }, wide, last) {
  const found = [], labels = drawn.filter((line) => line.label && !line.isCells).map((line) => {
    const shown = line.means || line.values;
    let at = shown.length - 1;
    while (at > 0 && !isKnown(shown[at])) at -= 1;
    return isKnown(shown[at]) ? { y: Y(shown[at]), from: Y(shown[at]), x: X(line.xs[at]), words: line.labelled || brief(line.label, 24) + " " + say(shown[at]), sub: line.sub, colour: line.colour } : null;
  }).filter((label) => label && Number.isFinite(label.y));
  for (const each of ends) {
    const x = each.side === "left" ? X(start) - 14 : X(end) + 14;
    if (isKnown(each.low)) found.push(draw("line", { class: "whisker", x1: x, x2: x, y1: Y(each.low), y2: Y(each.high) }));
    found.push(draw("circle", { class: "held", cx: x, cy: Y(each.value), r: 5 }));
    const low = Y(isKnown(each.low) ? each.low : each.value), down = low + 32 < floor;
    if (each.side === "left") found.push(draw("text", { class: "lab halo", x: x - 2, y: down ? low + 17 : Y(isKnown(each.high) ? each.high : each.value) - 22 }, each.label), draw("text", { class: "halo", x: x - 2, y: down ? low + 31 : Y(isKnown(each.high) ? each.high : each.value) - 8 }, each.sub));
    else labels.push({ y: Y(each.value), from: Y(each.value), x, words: each.label, sub: each.sub, colour: "var(--ink)" });
  }
  const isSub = labels.some((each) => each.sub), isOpenEnd = last < end && !ends.some((each) => each.side === "right");
  const common = isOpenEnd ? X(last) + 10 : Math.max(X(end) + (ends.length ? 14 : 0) + 12, wide - r + 6);
  for (const each of spread(labels, isSub ? 31 : 16, top + 6, floor - 4)) {
    if (Math.abs(each.y - each.from) > 3 || common - each.x > 22) found.push(draw("path", { class: "lead", d: "M" + (each.x + 5) + " " + each.from + "L" + (common - 4) + " " + each.y }));
    const text = draw("text", { class: "lab halo", x: common, y: each.y + 4, style: "fill:" + each.colour }, each.words);
    found.push(text, each.sub ? draw("text", { class: "halo", x: common, y: each.y + 18 }, each.sub) : "");
  }
  return found.filter(Boolean);
}

export function nearest(xs, x) {
  return xs.reduce((best, other) => Math.abs(other - x) < Math.abs(best - x) ? other : best, xs[0]);
}

// The rule and the tip at a place; the other charts of the same grid follow.
function point(box, frame, x, tip, isShared) {
  const said = box.querySelector(".tip"), at = x === null || !frame.places.length ? null : nearest(frame.places, x), rule = box.querySelector("line.hover"), svg = box.querySelector(".picture svg");
  if (at === null) { delete box.at; delete box.dataset.at; } else { box.at = at; box.dataset.at = at; }
  if (isShared) for (const other of box.closest(".grid")?.querySelectorAll(".chart") || []) if (other !== box) other.dispatchEvent(new CustomEvent("point", { detail: at }));
  said.hidden = at === null || !svg;
  if (!svg) return;
  rule.setAttribute("visibility", at === null ? "hidden" : "visible");
  if (at === null) return;
  const wide = svg.viewBox.baseVal.width, { X, top } = scales(frame, wide);
  rule.setAttribute("x1", X(at));
  rule.setAttribute("x2", X(at));
  const values = frame.drawn.map((line) => ({ line, i: line.xs.indexOf(nearest(line.xs, at)) })).filter(({ line, i }) => i >= 0 && Math.abs(line.xs[i] - at) <= (frame.axis === "step" && !line.isDots ? 0.5 : Infinity));
  said.replaceChildren(make("span", {}, AXES[frame.axis].words(at)), ...(tip ? tip(at).map((each) => make("span", { class: "row" }, each)) : values.slice(0, 12).map(({ line, i }) => valueAt_(line, i, frame))));
  said.style.left = Math.min(Math.max(X(at), 90), wide - 90) + "px";
  said.style.top = svg.parentNode.offsetTop + top + 12 + "px";
}

function valueAt_(line, i, { say, key }) {
  const few = line.counts && line.counts[i] < line.numRuns ? " (" + line.counts[i] + " of " + plural(line.numRuns, "run") + ")" : "";
  return make("a", { class: "row", id: "open " + key + " " + line.label, "data-label": line.label, title: isKnown(line.values[i]) ? String(line.values[i]) : "", href: episodesBehind(line, i), tabindex: "-1", "aria-label": line.label + " " + say(line.values[i]) + ": " + wordsBehind(line, i) },
    line.label + " " + say(line.values[i]) + (line.means ? ", mean " + say(line.means[i]) : "") + few);
}

function walk(event, { places }, show, open) {
  const box = event.currentTarget;
  if (event.target !== box || !places.length) return;
  if (event.key === "Enter" && open) return open(box.at === undefined ? places[places.length - 1] : box.at, null);
  const by = { ArrowLeft: -1, ArrowRight: 1, Home: -1e9, End: 1e9 }[event.key];
  if (!by) return;
  event.preventDefault();
  const now = box.at === undefined ? places.length - 1 - (by < 0 && by > -1e9 ? by : 0) : places.indexOf(nearest(places, box.at));
  show(box, places[Math.min(Math.max(now + by, 0), places.length - 1)], true);
}

// A tap only moves the tip, whose values are links. While a range is set, a click waits for a second one.
function listenTo(svg, scale, { axis }, show, box, open) {
  const at = (event) => scale.x(event.clientX - event.currentTarget.getBoundingClientRect().left);
  const on = { pointermove: (event) => { box.classList.toggle("touched", event.pointerType === "touch"); show(box, at(event), true); },
    pointerleave: (event) => { if (event.pointerType !== "touch") show(box, null, true); },
    pointerdown: (event) => { box.from = event.pointerType === "touch" ? null : [event.clientX, at(event)]; if (event.pointerType === "touch") { box.classList.add("touched"); show(box, at(event), true); } },
    pointerup: (event) => { if (box.from && Math.abs(event.clientX - box.from[0]) > CLICK_PIXELS) { zoomTo(box.from[1], at(event), axis); box.from = null; } },
    dblclick: () => { clearTimeout(box.waiting); go(WHOLE_RANGE); },
    click: (event) => {
      clearTimeout(box.waiting);
      if (!box.from || event.detail > 1 || !open) return;
      const [x, y] = [at(event), event.clientY - event.currentTarget.getBoundingClientRect().top], isZoomed = Object.keys(WHOLE_RANGE).some((name) => place().settings[name]);
      if (isZoomed) box.waiting = setTimeout(() => open(x, y, scale), DOUBLE_CLICK_MS); else open(x, y, scale);
    } };
  for (const [kind, listener] of Object.entries(on)) { svg.heard = { ...svg.heard, [kind]: listener }; svg.addEventListener(kind, (event) => svg.heard[kind](event)); }
}

// Show the dragged range only; the server answers it in more detail than it had before.
function zoomTo(one, other, axis) {
  const [low, high] = rangeNames(axis), ends = [Math.min(one, other), Math.max(one, other)];
  const [first, last] = AXES[axis].isWhole ? [Math.max(0, Math.ceil(ends[0])), Math.floor(ends[1])] : ends.map((end) => Number(end.toPrecision(6)));
  if (first <= last) go({ [low]: first, [high]: last });
}

// Opens the episodes behind the line's point that is nearest to x and, of several lines, to the height y in pixels.
export function opener(drawn) {
  return (x, y, scale) => {
    const found = drawn.filter((line) => line.xs.length).map((line) => {
      const i = line.xs.indexOf(nearest(line.xs, x)), value = (line.means || line.values)[i];
      const across = scale ? Math.abs(scale.X(line.xs[i]) - scale.X(x)) : Math.abs(line.xs[i] - x);
      return { line, i, far: y === null || !scale ? across : Math.hypot(across, isKnown(value) ? scale.Y(value) - y : 1e6) };
    });
    if (found.length) { const { line, i } = found.reduce((best, each) => each.far < best.far ? each : best); location.hash = episodesBehind(line, i); }
  };
}

// A line the height of a row. limit: drawn if it is in reach; span: steps of the whole run.
export function spark(values, { wide = 150, high = 26, colour = "var(--s1)", y = null, limit = null, span = null, label = "", isMean = true, xs = null } = {}) {
  const known = values.filter(isKnown), n = Math.max((span || values.length) - 1, 1);
  let [low, top] = y || (known.length ? [Math.min(...known), Math.max(...known)] : [0, 1]);
  if (isKnown(limit) && limit <= top + (top - low) * 1.2 + 1e-12 && limit >= low - (top - low) * 1.2) [low, top] = [Math.min(low, limit), Math.max(top, limit)];
  if (top - low < 1e-12) [low, top] = [low - 1, low + 1];
  const X = (i) => 3 + i / n * (wide - 8), Y = (x) => high - 4 - (x - low) / (top - low) * (high - 8), places = xs || values.map((_, i) => i);
  const svg = draw("svg", { class: "spark", viewBox: "0 0 " + wide + " " + high, width: wide, height: high, role: "img", "aria-label": label });
  if (isKnown(limit) && limit >= low && limit <= top) svg.append(draw("line", { class: "limit", x1: 0, x2: wide, y1: Y(limit), y2: Y(limit) }));
  if (isMean) svg.append(draw("path", { class: "raw", d: pathOf(places, values, X, Y), stroke: colour }));
  const ys = isMean ? smooth(values, windowOf(values.length)) : values;
  svg.append(draw("path", { class: "mean", d: pathOf(places, ys, X, Y), stroke: colour, "stroke-width": 1.5 }));
  let end = ys.length - 1;
  while (end > 0 && !isKnown(ys[end])) end -= 1;
  if (known.length) svg.append(draw("circle", { cx: X(places[end]), cy: Y(ys[end]), r: 2.5, fill: colour }));
  return svg;
}

// Before and after on one scale from 0 to 100%, with the interval of what came after.
export function dumbbell(before, after, { wide = 240, high = 28 } = {}) {
  const X = (x) => 6 + x * (wide - 12), mid = high / 2, isBefore = before && isKnown(before.value), isAfter = after && isKnown(after.value);
  const svg = draw("svg", { class: "spark", viewBox: "0 0 " + wide + " " + high, width: wide, height: high, role: "img", "aria-label": "held-out success " + pct(isBefore ? before.value : null) + " before" + (isAfter ? ", " + pct(after.value) + " after training" : "") });
  for (const t of [0, 0.25, 0.5, 0.75, 1]) svg.append(draw("line", { class: "rule", x1: Math.round(X(t)), x2: Math.round(X(t)), y1: 0, y2: high }));
  if (isBefore && isAfter) svg.append(draw("line", { class: "lead", x1: X(before.value), x2: X(after.value), y1: mid, y2: mid, "stroke-width": 2 }));
  if (isAfter && isKnown(after.low)) svg.append(draw("line", { class: "whisker broad", x1: X(after.low), x2: X(after.high), y1: mid, y2: mid }));
  if (isAfter) svg.append(draw("circle", { class: "held", cx: X(after.value), cy: mid, r: 5 }));
  if (isBefore) svg.append(draw("circle", { class: "open", cx: X(before.value), cy: mid, r: 4 }));
  return svg;
}

// Two columns of values joined by lines, with names at both ends. rows: [{ name, before, after, isMain }].
export function slopes({ title, note, rows, height = 300 }) {
  const paint = (wide) => {
    const top = 22, low = height - 26, Y = (x) => low - x * (low - top), a = 44, b = Math.max(90, wide - 148);
    const svg = draw("svg", { viewBox: "0 0 " + wide + " " + height, height, role: "img", "aria-label": rows.map((row) => row.name + " " + pct(row.before) + " to " + pct(row.after)).join(", ") });
    for (const [x, said] of [[a, "before"], [b, "after"]]) svg.append(draw("line", { class: "base", x1: x, x2: x, y1: top - 6, y2: low }), draw("text", { x, y: height - 8, "text-anchor": "middle" }, said));
    const left = spread(rows.map((row) => ({ y: Y(row.before) })), 15, top, low - 2), right = spread(rows.map((row) => ({ y: Y(row.after) - (row.after - row.before) * 6 })), 16, top - 4, low - 2);
    rows.forEach((row, i) => {
      const colour = row.isMain ? "var(--hot)" : "var(--s6)";
      svg.append(draw("line", { x1: a, x2: b, y1: Y(row.before), y2: Y(row.after), stroke: colour, "stroke-width": row.isMain ? 2.5 : 1.25, opacity: row.isMain ? 1 : 0.75 }), draw("circle", { cx: a, cy: Y(row.before), r: 3, fill: colour }), draw("circle", { cx: b, cy: Y(row.after), r: 3, fill: colour }),
        draw("text", { x: a - 9, y: left[i].y + 4, "text-anchor": "end" }, pct(row.before)), draw("path", { class: "lead", d: "M" + (b + 4) + " " + Y(row.after) + "L" + (b + 13) + " " + right[i].y }), draw("text", { class: row.isMain ? "lab" : "lab2", x: b + 17, y: right[i].y + 4 }, pct(row.after) + "  " + brief(row.name, 18)));
    });
    return svg;
  };
  return make("figure", { class: "chart", "data-key": "slopes" }, make("figcaption", {}, make("h3", {}, title), note ? make("span", {}, note) : ""), sized({ class: "picture" }, paint));
}

// A difference with its interval around 0; filled where the interval does not contain 0.
export function forest({ value, low, high }, reach, { wide = 260, tall = 24 } = {}) {
  const X = (x) => 8 + (x - reach[0]) / (reach[1] - reach[0]) * (wide - 16), isSure = isKnown(low) && (low > 0 || high < 0);
  return draw("svg", { class: "spark" + (isSure ? "" : " chance"), viewBox: "0 0 " + wide + " " + tall, width: wide, height: tall, role: "img", "aria-label": points(value) + " points" + (isKnown(low) ? ", " + points(low) + " to " + points(high) : "") + (isSure ? "" : ", could be chance") },
    draw("line", { class: "base", x1: X(0), x2: X(0), y1: 0, y2: tall }), isKnown(low) ? draw("line", { class: "whisker", x1: X(low), x2: X(high), y1: tall / 2, y2: tall / 2 }) : "", draw("circle", { class: isSure ? "held" : "open", cx: X(value), cy: tall / 2, r: 4 }));
}

// A bar above the middle for a success, below it for a failure, in the middle where infrastructure failed or nothing was judged.
export function winLoss(members, { here = null, link = null } = {}) {
  const said = members.filter((each) => each.is_success).length + " of " + members.length + " succeeded", kindOf = (each) => each.is_success ? "w" : each.is_success === null || each.fault === "infra" ? "x" : "l";
  if (!link) { // one path a kind: a list of a hundred groups has a thousand tries
    const bars = { w: ["var(--ok)", 0, 8], l: ["var(--fault)", 10, 8], x: ["var(--infra)", 7, 4] }, wide = 12 * members.length;
    return make("span", { class: "wl" }, draw("svg", { viewBox: "0 0 " + wide + " 18", width: wide, height: 18, role: "img", "aria-label": said }, Object.entries(bars).map(([kind, [fill, top, tall]]) => {
      const d = members.map((each, i) => kindOf(each) === kind ? "M" + 12 * i + " " + top + "h9v" + tall + "h-9z" : "").join("");
      return d ? draw("path", { d, fill }) : "";
    })));
  }
  return make("span", { class: "wl", role: "group", "aria-label": said }, members.map((each) => {
    const words = (each.is_success ? "success" : kindOf(each) === "x" ? "infrastructure, or not judged" : "no success") + (each.answer ? ", answered " + brief(each.answer, 60) : "");
    return make("a", { href: link(each), class: kindOf(each) + (each.id === here ? " here" : ""), title: words, "aria-label": words, "aria-current": each.id === here ? "true" : null });
  }));
}
