// What charts are drawn over: steps, hours since the run's start, or tokens sampled so far. One choice for all charts.

import { num } from "./dom.js";

// unit: in the fields of the range; words: a place on the axis, in the readout; isWhole: whether places are whole numbers.
export const AXES = {
  step: { title: "step", unit: "steps", words: (at) => "step " + num(at), isWhole: true },
  time: { title: "hours since the start", unit: "hours", words: (at) => num(at) + " hours", isWhole: false },
  tokens: { title: "tokens sampled so far", unit: "tokens", words: (at) => num(at) + " tokens", isWhole: true },
};

export function axisOf(settings) {
  return Object.hasOwn(AXES, settings.axis) ? settings.axis : "step";
}

// The names under which the address keeps a range: steps are also what lists of episodes are filtered by.
export function rangeNames(axis) {
  return axis === "step" ? ["first", "last"] : ["from", "to"];
}

export const WHOLE_RANGE = { first: "", last: "", from: "", to: "" };

// The shown part of the runs, as the server is asked for it.
export function rangeOf(settings) {
  const axis = axisOf(settings), steps = { first: settings.first, last: settings.last };
  return axis === "step" ? steps : { ...steps, axis, from: settings.from, to: settings.to };
}
