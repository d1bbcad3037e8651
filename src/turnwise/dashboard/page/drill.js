// From a point of a curve to the episodes behind it.

import { WHOLE_RANGE } from "./axes.js";
import { moved } from "./place.js";

// line: { run, name, steps, sources?, origin? }; answers the address of the list of these episodes.
export function episodesBehind(line, index) {
  if (line.origin) return episodesBehind(...line.origin(index)); // a mean of several runs: of the first of them
  return moved({ ...WHOLE_RANGE, ...filtersOf(line, index), run: line.run }, "trajectories");
}

function filtersOf({ name, steps, sources }, index) {
  const step = steps[index], [kind, ...rest] = name.split("/");
  if (sources) return { source: sources[index] };
  if (kind === "validation") return { source: "step-" + String(step + 1).padStart(6, "0") };
  const played = { source: "train", first: step, last: step };
  return kind === "success" && name !== "success/rate" ? { ...played, family: rest.join("/"), success: "0" } : played;
}

// In words, for the title of a link.
export function wordsBehind(line, index) {
  if (line.origin) return wordsBehind(...line.origin(index));
  const { source, family, first } = filtersOf(line, index);
  if (source !== "train") return "the episodes of this evaluation";
  return family === undefined ? "the episodes of step " + first : "the failed episodes of this family at step " + first;
}
