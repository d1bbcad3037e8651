// A histogram over steps: one column a step, darker where more tokens lie, with the clip boundaries drawn in.

import { chart } from "./chart.js";
import { figure, make, number } from "./dom.js";
import { ink } from "./ink.js";

const TICKS = [0.25, 0.5, 1, 2, 4];

// edges: between the bins, ascending; columns: [{ first, last, counts }], of steps that were counted together.
export function heat({ edges, columns, bounds, run = "", ...words }) {
  const lowest = Math.max(edges[0], 1e-6), highest = Math.max(edges[edges.length - 1], 2 * lowest);
  const room = (highest / lowest) ** (1 / edges.length); // for the bins below the first edge and above the last
  const floor = (bin) => bin ? Math.max(edges[bin - 1], lowest) : lowest / room, ceiling = (bin) => bin < edges.length ? Math.max(edges[bin], lowest) : highest * room;
  const limits = bounds.filter((bound) => bound > 0).map((value) => ({ value }));
  const totals = columns.map((column) => column.counts.reduce((sum, count) => sum + count, 0));
  const paint = (plot) => {
    const x = (step) => plot.valToPos(step, "x", true), y = (ratio) => plot.valToPos(ratio, "y", true);
    columns.forEach(({ first, last, counts }, place) => counts.forEach((count, bin) => {
      if (!count) return;
      plot.ctx.fillStyle = ink("c1", Math.max(0.1, 1 + Math.log10(count / totals[place]) / 4));
      plot.ctx.fillRect(x(first - 0.5), y(ceiling(bin)), Math.max(x(last + 0.5) - x(first - 0.5) - 0.5, 0.5), y(floor(bin)) - y(ceiling(bin)));
    }));
  };
  const readout = make("ul", { class: "readout" });
  const middles = columns.map(({ first, last }) => (first + last) / 2);
  const fill = (at) => {
    const place = middles.indexOf(at), { first, last, counts } = columns[place];
    const outside = counts.filter((_, bin) => isOutside(Math.sqrt(floor(bin) * ceiling(bin)), bounds)).reduce((sum, count) => sum + count, 0);
    readout.replaceChildren(make("li", { class: "step" }, first === last ? "step " + figure(first) : "steps " + figure(first) + "–" + figure(last)),
      make("li", { "data-label": "tokens" }, "tokens ", number(totals[place])), make("li", {}, "in bins past a boundary ", number(outside)),
      ...limits.map(({ value }) => make("li", { class: "limit", "data-bound": value }, "boundary ", number(value))));
  };
  // low and high are the bin's edges
  const rows = () => columns.flatMap(({ first, counts }) => counts.map((count, bin) => [first, run, "tokens by ratio", count, floor(bin), ceiling(bin)]));
  return chart({ ...words, rows, readout, fill, limits, data: [middles, totals], series: [{}, { show: false }],
    y: { distr: 3, log: 2, range: [lowest / room, highest * room] }, yAxis: { splits: () => TICKS, filter: (_, splits) => splits },
    range: [columns[0].first - 0.5, columns[columns.length - 1].last + 0.5], paint });
}

function isOutside(ratio, [low, high]) {
  return ratio < low || ratio > high;
}
