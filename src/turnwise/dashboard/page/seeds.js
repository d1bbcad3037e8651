// Runs that differ only by their seed, drawn as one line: the mean, with a band from the lowest to the highest.

import { nearest } from "./charts.js";
import { brief } from "./dom.js";

// Keys that change what a run is called and what it writes, not what it learns.
const OUTPUT_KEYS = ["run.name", "run.folder", "run.tags", "run.checkpoint_every", "run.keep_checkpoints", "trackers"];

// The chosen runs in groups: { name, runs, label }. Runs of the same recipe but for the seed are in one group.
export function seedGroups(runs) {
  const found = new Map();
  for (const run of runs) {
    const key = run.standing.state === "damaged" ? "damaged " + run.name : JSON.stringify(learnedBy(run));
    found.set(key, [...(found.get(key) || []), run]);
  }
  const alike = [...found.values()];
  return alike.flatMap((each) => numSeeds(each) > 1 ? [seedGroup(each, alike)] : each.map((run) => seedGroup([run], alike)));
}

// The keys that change what a run learns, apart from its seed.
function learnedBy(run) {
  return Object.entries(run.standing.differs || {}).filter(([key]) => key !== "seed" && !OUTPUT_KEYS.includes(key));
}

// Named by what tells it from the other groups: keys of the recipe, else its first run.
function seedGroup(runs, groups) {
  if (runs.length === 1) return { name: runs[0].name, label: runs[0].name, runs };
  const num = numSeeds(runs), words = num === runs.length ? "mean of " + num + " seeds" : "mean of " + runs.length + " runs with " + num + " seeds";
  const isTelling = ([key, value]) => groups.some(([other]) => new Map(learnedBy(other)).get(key) !== value);
  const keys = learnedBy(runs[0]).filter(isTelling).map(([key, value]) => key + " = " + brief(value, 30));
  return { name: words, label: words + (keys.length && keys.length < 4 ? ", " + keys.join(", ") + ":" : " of " + runs[0].name), runs };
}

function numSeeds(runs) {
  return new Set(runs.map((run) => (run.standing.differs || {}).seed)).size;
}

// One line out of the same figure's lines in several runs. Between its points a run's value is interpolated;
// where a run has no value, the mean is over the others, and `counts` says over how many.
export function meanOf(lines) {
  const xs = [...new Set(lines.flatMap((line) => line.xs))].sort((one, other) => one - other);
  const at = xs.map((x) => lines.map((line) => valueAt(line, x)).filter((value) => value !== null));
  const of = (pick) => at.map((values) => values.length ? pick(values) : null);
  const origin = (index) => {
    const line = lines.find((each) => valueAt(each, xs[index]) !== null) || lines[0];
    return [line, line.xs.indexOf(nearest(line.xs, xs[index]))];
  };
  return { xs, origin, counts: at.map((values) => values.length), numRuns: lines.length,
    values: of((values) => values.reduce((sum, value) => sum + value, 0) / values.length), lows: of((values) => Math.min(...values)), highs: of((values) => Math.max(...values)) };
}

function valueAt({ xs, values }, x) {
  const after = firstFrom(xs, x);
  if (after === xs.length) return null;
  if (xs[after] === x) return values[after];
  if (after === 0 || values[after] === null || values[after - 1] === null) return null;
  const share = (x - xs[after - 1]) / (xs[after] - xs[after - 1]);
  return values[after - 1] + share * (values[after] - values[after - 1]);
}

// The place of the first x that is not below the given one.
function firstFrom(xs, x) {
  let low = 0, high = xs.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (xs[middle] < x) low = middle + 1; else high = middle;
  }
  return low;
}
