// A histogram over steps: one column a step, darker where more tokens lie, with the clip boundaries drawn in.

import { lines } from "./charts.js";
import { draw, num } from "./dom.js";

const SHADES = 8;

// edges: between the bins, ascending; columns: [{ first, last, counts }], of steps that were counted together.
export function heat({ edges, columns, bounds, run = "" }) {
  const lowest = Math.max(edges[0], 1e-6), highest = Math.max(edges[edges.length - 1], 2 * lowest);
  const room = (highest / lowest) ** (1 / edges.length); // for the bins below the first edge and above the last
  const floor = (bin) => bin ? Math.max(edges[bin - 1], lowest) : lowest / room, ceiling = (bin) => bin < edges.length ? Math.max(edges[bin], lowest) : highest * room;
  const totals = columns.map((column) => column.counts.reduce((sum, count) => sum + count, 0)), middles = columns.map(({ first, last }) => (first + last) / 2);
  const isOutside = (bin) => { const middle = Math.sqrt(floor(bin) * ceiling(bin)); return middle < bounds[0] || middle > bounds[1]; };
  // one path a shade: a rectangle a bin would be thousands of elements
  const under = (X, Y) => {
    const paths = Array.from({ length: SHADES }, () => []);
    columns.forEach(({ first, last, counts }, place) => counts.forEach((count, bin) => {
      if (!count) return;
      const shade = Math.round((SHADES - 1) * Math.max(0, 1 + Math.log10(count / totals[place]) / 4)), [x, y] = [X(first - 0.5), Y(ceiling(bin))];
      paths[shade].push("M" + x.toFixed(1) + " " + y.toFixed(1) + "H" + (X(last + 0.5) - 0.4).toFixed(1) + "V" + Y(floor(bin)).toFixed(1) + "H" + x.toFixed(1) + "Z");
    }));
    return paths.map((path, shade) => draw("path", { fill: "var(--s1)", opacity: (0.1 + 0.9 * shade / (SHADES - 1)).toFixed(2), d: path.join("") }));
  };
  const tip = (at) => {
    const { first, last, counts } = columns[middles.indexOf(at)];
    return [first === last ? "step " + first : "steps " + first + "–" + last, "tokens " + num(counts.reduce((sum, count) => sum + count, 0)), "in bins past a boundary " + num(counts.filter((_, bin) => isOutside(bin)).reduce((sum, count) => sum + count, 0))];
  };
  // low and high are the bin's edges
  const cells = columns.flatMap(({ first, counts }) => counts.map((count, bin) => ({ x: first, count, low: floor(bin), high: ceiling(bin) })));
  const line = { run, name: "tokens by ratio", label: "tokens by ratio", xs: cells.map((cell) => cell.x), values: cells.map((cell) => cell.count), lows: cells.map((cell) => cell.low), highs: cells.map((cell) => cell.high), isCells: true };
  return lines({ key: "ratios", title: "Ratios", note: "Each column is a step: how many tokens have which new-over-old probability; dashed, where clipping begins.", drawn: [line], xs: middles, start: columns[0].first - 0.5, span: columns[columns.length - 1].last + 0.5,
    y: [lowest / room, highest * room], isLog: true, height: 200, right: 20, left: 54, limits: bounds.filter((bound) => bound > 0).map((at) => ({ at, words: num(at) })), under, tip, describe: "Of the newest step " + tip(middles[middles.length - 1]).slice(1).join(", ") + "." });
}
