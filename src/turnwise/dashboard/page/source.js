// Takes what an episode was played for, gives it in words: a step of training, or which evaluation after how many steps.

const NAMES = new Map([["train", "training"], ["before", "held-out, before training"], ["after", "held-out, after training"]]);

export function playedFor(source, step) {
  return source === "train" ? "step " + step : nameOf(source);
}

export function nameOf(source) {
  const steps = /^step-(\d+)$/.exec(source);
  if (steps) return "validation, after " + Number(steps[1]).toLocaleString("en-US") + " steps";
  return NAMES.get(source) || "evaluation " + source;
}
