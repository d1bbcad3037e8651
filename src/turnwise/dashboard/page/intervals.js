// Shares with their intervals, one row a label: dots on a line from 0% to 100%, one colour for each side.

import { brief, draw } from "./dom.js";

// rows: [{ label, num, isFew, estimates: [{ value, low, high } or null], onpick }]; a row that rests on few tasks is grey.
export function intervals(rows, key, words) {
  const isNarrow = document.documentElement.clientWidth < 760; // text keeps its size
  const high = 32, left = isNarrow ? 130 : 190, wide = isNarrow ? 340 : 630;
  const picture = draw("svg", { viewBox: "0 0 " + wide + " " + (rows.length * high + 24), role: "img", id: "intervals-" + key, class: "intervals", "aria-label": words + "; the table below has the numbers" });
  const x = (value) => left + value * (wide - left - 20);
  for (const value of [0, 0.25, 0.5, 0.75, 1]) picture.append(draw("line", { class: "grid", x1: x(value), x2: x(value), y1: 0, y2: rows.length * high }),
    draw("text", { class: "axis", x: x(value), y: rows.length * high + 16, "text-anchor": "middle" }, 100 * value + "%"));
  rows.forEach((row, place) => picture.append(rowOfDots(row, place * high + high / 2, left, x, isNarrow ? 18 : 28)));
  return picture;
}

function rowOfDots({ label, num, isFew, estimates, onpick }, middle, left, x, mostChars) {
  const group = draw("g", { class: "dots" + (isFew ? " few" : ""), "data-label": brief(label), onclick: onpick },
    draw("text", { class: "axis", x: left - 10, y: middle, "text-anchor": "end" }, brief(label, mostChars)),
    draw("text", { class: "axis", x: left - 10, y: middle + 12, "text-anchor": "end" }, "n = " + num));
  const [one, other] = estimates;
  if (one && other) group.append(draw("line", { class: "step", x1: x(one.value), x2: x(other.value), y1: middle - 5, y2: middle + 5 }));
  estimates.forEach((estimate, side) => {
    if (!estimate) return;
    const at = middle + (side - (estimates.length - 1) / 2) * 10, colour = "c" + (side + 1);
    if (estimate.low !== null) group.append(draw("line", { class: "line " + colour, x1: x(estimate.low), x2: x(estimate.high), y1: at, y2: at }));
    group.append(draw("circle", { class: "dot " + colour, cx: x(estimate.value), cy: at, r: 4.5 }, draw("title", {}, brief(label) + ": " + (100 * estimate.value).toFixed(1) + "%")));
  });
  return group;
}
