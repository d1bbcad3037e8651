// Values with their intervals, one row a label: dots on a line from 0 to 1.

import { brief, draw, figure } from "./dom.js";

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
