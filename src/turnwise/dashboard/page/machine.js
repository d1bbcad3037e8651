// The machine as the last step left it: GPU, memory and disk, with a sentence where something is short or idle.

import { figure, make, percent } from "./dom.js";

const GIB = 2 ** 30, IDLE = 0.5, FULL = 0.95, LEAST_DISK = 5 * GIB;
const GPU_FACTS = [
  ["gpu/utilization", "GPU in use", percent], ["memory/cuda_used_fraction", "GPU memory in use", percent], ["memory/cuda_allocated_gib", "GPU memory of tensors", gibibytes],
  ["memory/mps_allocated_gib", "GPU memory of tensors", gibibytes], ["gpu/temperature_celsius", "GPU temperature", (value) => figure(value) + " °C"], ["gpu/power_watts", "GPU power", (value) => figure(value) + " W"],
  ["memory/resident_gib", "memory of the process", gibibytes], ["memory/peak_gib", "most memory so far", gibibytes]];

export function machineOf(runs, found) {
  return make("div", { class: "cards", id: "machine" }, runs.map((run, place) => cardOfMachine(run, found[place], runs.length > 1)));
}

function cardOfMachine(run, { step, figures, gpu_idle: idle, phases, disk }, isNamed) {
  const facts = GPU_FACTS.filter(([name]) => figures[name] !== null && figures[name] !== undefined).map(([name, words, shown]) => [name, words, shown(figures[name])]);
  if (disk) facts.push(["disk", "disk left", gibibytes(disk.free_bytes / GIB)]);
  if (!facts.length) return "";
  const warnings = [idleWords(idle, phases), figures["memory/cuda_used_fraction"] > FULL ? "The GPU's memory is almost full: the next larger batch may not fit." : "",
    disk && (disk.free_bytes < LEAST_DISK || disk.free_bytes < 0.02 * disk.total_bytes) ? "The disk of the run's folder is almost full: the next checkpoint may not fit." : ""].filter(Boolean);
  return make("article", { class: "card", "data-run": run.name }, make("h3", {}, "Machine", isNamed ? make("small", {}, " of " + run.name) : ""),
    make("p", { class: "note" }, step === null ? "before the first step" : "as of step " + figure(step)),
    make("dl", {}, facts.map(([name, words, shown]) => make("div", { class: "fact", "data-fact": name }, make("dt", {}, words), make("dd", {}, shown)))),
    warnings.map((words) => make("p", { class: "warn" }, words)));
}

// A GPU that learns is idle while episodes are collected; the largest phase says what it waited for.
function idleWords(idle, phases) {
  if (idle === null || idle < IDLE) return "";
  const [largest] = Object.entries(phases).sort(([, one], [, other]) => other - one);
  return "The GPU that learns was idle for " + inPercent(idle) + " of the last steps" + (largest ? "; " + inPercent(largest[1]) + " of their time went into " + largest[0] : "") + ".";
}

function inPercent(value) {
  return (100 * value).toFixed(0) + "%";
}

function gibibytes(value) {
  return figure(Number(value.toPrecision(3))) + " GiB";
}
