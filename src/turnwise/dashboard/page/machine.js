// The machine as the last step left it: GPU, memory and disk, with a sentence where something is short or idle.

import { isKnown, make, num, pct } from "./dom.js";

const GIB = 2 ** 30, IDLE = 0.5, FULL = 0.95, LEAST_DISK = 5 * GIB;
const GPU_FACTS = [
  ["gpu/utilization", "GPU in use", pct], ["memory/cuda_used_fraction", "GPU memory in use", pct], ["memory/cuda_allocated_gib", "GPU memory of tensors", gibibytes],
  ["memory/mps_allocated_gib", "GPU memory of tensors", gibibytes], ["gpu/temperature_celsius", "GPU temperature", (value) => num(value) + " °C"], ["gpu/power_watts", "GPU power", (value) => num(value) + " W"],
  ["memory/resident_gib", "memory of the process", gibibytes], ["memory/peak_gib", "most memory so far", gibibytes]];

export function machineOf({ figures, gpu_idle: idle, phases, disk }) {
  const facts = GPU_FACTS.filter(([name]) => isKnown(figures[name])).map(([name, said, shown]) => [name, said, shown(figures[name])]);
  if (disk) facts.push(["disk", "disk left", gibibytes(disk.free_bytes / GIB)]);
  if (!facts.length) return make("p", { class: "quiet" }, "Nothing is known of it yet.");
  const warnings = [idleWords(idle, phases), figures["memory/cuda_used_fraction"] > FULL ? "The GPU's memory is almost full: the next larger batch may not fit." : "",
    disk && (disk.free_bytes < LEAST_DISK || disk.free_bytes < 0.02 * disk.total_bytes) ? "The disk of the run's folder is almost full: the next checkpoint may not fit." : ""].filter(Boolean);
  return make("div", { id: "machine" }, make("dl", { class: "across" }, facts.map(([name, said, shown]) => make("div", { "data-fact": name }, make("dt", {}, said), make("dd", {}, shown)))), warnings.map((said) => make("p", { class: "notice" }, said)));
}

// A GPU that learns is idle while episodes are collected; the largest phase says what it waited for.
function idleWords(idle, phases) {
  if (idle === null || idle < IDLE) return "";
  const [largest] = Object.entries(phases).sort(([, one], [, other]) => other - one);
  return "The GPU that learns was idle for " + pct(idle) + " of the last steps" + (largest ? "; " + pct(largest[1]) + " of their time went into " + largest[0] : "") + ".";
}

function gibibytes(value) {
  return num(Number(value.toPrecision(3))) + " GiB";
}
