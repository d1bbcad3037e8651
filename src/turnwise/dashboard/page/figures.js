// Which figures answer which question, which are drawn together, and the one line that says what they mean. `*` is every
// other of its kind.

import { num, pct, pct1, took, whole } from "./dom.js";

export const OVERVIEW = [
  { key: "success", title: "Success", names: ["success/rate", "validation/success", "heldout/success"],
    note: "Share of episodes that did everything their task asks: in training, and on tasks never trained on." },
  { key: "repeating", title: "Repeating episodes", names: ["episodes/repeating_share", "validation/repeating_share"],
    note: "Share of episodes that write the same malformed turn, or make the same calls with the same results, again and again; training ends them as failures (rollout.max_repeats)." },
  { key: "families", title: "Success by family", names: ["success/*"],
    note: "The same share for each family of tasks; the one that stays low is what the policy cannot do yet." },
  { key: "signal", title: "Groups with a gradient", names: ["groups/signal_fraction", "groups/predicted_signal_fraction"],
    note: "Share of groups whose members earned different rewards, and the share that the draw expected from earlier outcomes." },
  { key: "drawn", title: "Groups drawn by family", names: ["drawn/*"],
    note: "How many groups of each family a step played: most where members will probably differ, and some of every family." },
  { key: "signal_by_family", title: "Groups with a gradient by family", names: ["signal/*"],
    note: "The share of each family's groups whose members earned different rewards; the others teach nothing." },
  { key: "temperatures", title: "Sampling temperature", names: ["rollout/temperature", "temperature/*"],
    note: "Mean of a step's groups, and by family: raised while too few of a family's groups have a gradient (rollout.temperature_by_family)." },
  { key: "messages", title: "Success by message", names: ["success_by_message/*"],
    note: "The share of conversations whose first, second, … user message succeeded." },
  { key: "reward", title: "Reward", names: ["reward/mean", "validation/reward", "heldout/reward", "reward/std"],
    note: "Mean of the episodes' rewards, in training and on tasks never trained on, and the spread that learning needs." },
  { key: "parts", title: "Reward parts", names: ["reward/*"],
    note: "Each part of the reward before weighing, from 0 to 1: shows which part the total comes from." },
  { key: "kl", title: "KL", names: ["kl/sampler", "kl/old", "kl/reference"],
    note: "Nats a token from sampler to trainer (should be near 0), from before to after the update, and from the reference." },
  { key: "entropy", title: "Entropy", names: ["entropy/mean"],
    note: "How undecided the policy is, in nats a token; a fall to 0 means it has stopped trying anything else." },
  { key: "loss", title: "Policy loss", names: ["loss/policy", "loss/kl", "loss/entropy", "loss/imitation"],
    note: "What the update makes smaller; its size says little, a sudden jump says something broke." },
  { key: "value", title: "Value loss", names: ["value/loss"],
    note: "How far the value head is from the returns it predicts (PPO only)." },
  { key: "explained", title: "Explained variance", names: ["value/explained_variance"],
    note: "1: the value head predicts returns exactly; 0: no better than their mean; below: worse than that." },
  { key: "gradient", title: "Gradient norm", names: ["gradient/norm", "gradient/value_norm"],
    note: "Length of the gradient before it is clipped; spikes mean a batch that pulls hard in one direction." },
  { key: "speed", title: "Tokens per second", names: ["rollout/tokens_per_second"],
    note: "Tokens the policy sampled per second of collecting, waiting on tools included." },
  { key: "time", title: "Seconds per step", names: ["time/*"],
    note: "Where a step's time goes, phase by phase." },
  { key: "memory", title: "Memory", names: ["memory/peak_gib", "memory/resident_gib", "memory/cuda_allocated_gib", "memory/cuda_peak_gib", "memory/mps_allocated_gib", "memory/mps_driver_gib"],
    note: "GiB held by the process now and at most; CUDA's or MPS's too where there is a GPU." },
  { key: "gpu", title: "GPU utilisation", names: ["gpu/utilization"],
    note: "Share of the step in which the GPU that learns ran a kernel; a low share means it waited for episodes or for data." },
  { key: "temperature", title: "GPU temperature", names: ["gpu/temperature_celsius"],
    note: "Highest of the step, in degrees Celsius; a GPU slows down when it is too hot." },
  { key: "power", title: "GPU power", names: ["gpu/power_watts"],
    note: "Mean of the step in watts." },
  { key: "errors", title: "Tool and format errors", names: ["tools/error_rate", "format/error_rate"],
    note: "Share of calls that failed by the model's own doing, and of turns that could not be read as a call or an answer." },
  { key: "truncation", title: "Truncation", names: ["truncation/rate", "episodes/out_of_turns"],
    note: "Share of episodes cut off for length, and of those that ran out of turns, before they answered." },
  { key: "tokens", title: "Tokens an episode", names: ["length/own_tokens", "length/own_tokens_max"],
    note: "Tokens the policy wrote itself: the mean and the longest." },
  { key: "turns", title: "Turns and calls", names: ["length/turns", "tools/calls"],
    note: "Turns played and tools called in an episode, on average." },
  { key: "plan_starts", title: "Starts inside the plan", names: ["plan_starts/*"],
    note: "Share of episodes that began with turns of the task's plan, the share of the plan given, and how many reached the goal from there. None counts as a success of the task." },
  { key: "rescues", title: "Rescues", names: ["rescues/*"],
    note: "Failed episodes in which the task's plan took over, and those of them that reached the goal and are imitated." },
  { key: "rate", title: "Learning rate", names: ["learning_rate"],
    note: "As the schedule had it at each step." },
  { key: "lost", title: "Lost episodes", names: ["episodes/lost", "groups/dropped"],
    note: "Episodes lost to infrastructure and played again, and groups given up; never scored as failures." },
];

export const HEALTH = [
  { key: "active", title: "Active and clipped", names: ["clip/active_fraction", "clip/low_fraction", "clip/high_fraction", "clip/dual_fraction"], rule: "active_fraction",
    note: "Share of tokens that still teach, and of those stopped at each boundary." },
  { key: "masks", title: "Learnable and dropped", names: ["mask/learnable_fraction", "mask/dropped_fraction"], rule: "learnable_fraction",
    note: "Of the sampled tokens: those learned from, and those a correction dropped." },
  { key: "alignment", title: "Alignment", names: ["tokens/alignment"], rule: "alignment",
    note: "Share of sampled tokens whose log-prob the trainer agrees with; anything below 1 is a defect, not noise." },
  { key: "sampler", title: "Sampler and trainer", names: ["sampler/max_abs_difference", "sampler/mean_abs_difference"],
    note: "Distance between the log-probs of the one that sampled and the one that learns, in nats." },
  { key: "klsampler", title: "KL from sampler", names: ["kl/sampler"], rule: "kl_sampler",
    note: "Nats a token between the engine's distribution and the trainer's; should stay near 0." },
  { key: "klreference", title: "KL from reference", names: ["kl/reference"], rule: "kl_reference",
    note: "How far the policy has gone from what it is held near, in nats a token." },
  { key: "ratio", title: "Ratio", names: ["ratio/p10", "ratio/p50", "ratio/p90", "ratio/max"],
    note: "New over old probability of each token: a tenth lie below p10, a tenth above p90." },
  { key: "spread", title: "Ratio's spread", names: ["ratio/std", "ratio/std_late"],
    note: "0 is right before anything was learned from a batch; after the first optimizer step it must move." },
  { key: "advantage", title: "Advantage", names: ["advantage/min", "advantage/mean", "advantage/max"],
    note: "How much better or worse than its group each token's episode did; the mean should stay near 0." },
  { key: "flat", title: "Groups without signal", names: ["groups/zero_variance_fraction", "advantage/zero_fraction"], rule: "zero_variance",
    note: "Share of groups whose members all earned the same, and of tokens that therefore teach nothing." },
  { key: "stale", title: "Staleness", names: ["staleness/mean", "staleness/max"],
    note: "How many updates old the policy was that sampled the batch; 0 where collecting waits for learning." },
  { key: "skipped", title: "Steps left out", names: ["skipped/not_a_number", "skipped/kl_cap", "skipped/empty"],
    note: "Optimizer steps not taken so far: a value that is not finite, the KL cap, nothing to learn." },
  { key: "cut", title: "Truncation", names: ["truncation/rate"], rule: "truncation",
    note: "Share of episodes cut off before they could answer." },
  { key: "toolerrors", title: "Tool errors", names: ["tools/error_rate"], rule: "tool_errors",
    note: "Share of calls that failed by the model's own doing." },
];

// The names a panel means, out of those that were logged.
export function namesOf(panel, panels, known) {
  const taken = new Set(panels.flatMap((each) => each.names));
  return panel.names.flatMap((name) => {
    if (!name.endsWith("/*")) return known.includes(name) ? [name] : [];
    return known.filter((each) => each.startsWith(name.slice(0, -1)) && !taken.has(each));
  });
}

const SHARES = ["tokens/alignment", "gpu/utilization", "episodes/answered", "episodes/out_of_turns", "validation/success", "heldout/success"];

// Whether a figure is a share from 0 to 1, which is shown in percent.
export function isShare(name) {
  return SHARES.includes(name) || /^success(_by_message)?\/|(\/|_)(rate|fraction|share)$/.test(name) && name !== "learning_rate";
}

export const TOOLS = [
  { key: "tool-errors", title: "Errors", names: ["tools/error_rate"], note: "Share of calls that failed by the model's own doing." },
  { key: "tool-seconds", title: "Seconds a call", names: ["tools/seconds"], note: "Mean time from a call to its result." },
  { key: "tool-calls", title: "Calls an episode", names: ["tools/calls"], note: "How many calls an episode makes, on average." },
  { key: "breakers", title: "Breaker openings", names: ["breaker/openings/*"], note: "How often each server's breaker opened while a step was played; 0 is a server that answers." },
];

// Figures by the question they answer, each a row with its course; panels are drawn below their question.
export const QUESTIONS = [
  { ask: "Does each step teach?", panels: ["flat", "advantage"], rows: [
    { name: "groups/zero_variance_fraction", words: "groups that teach nothing", say: pct, y: [0, 1], rule: "zero_variance", note: "all tries of a group earned the same" },
    { name: "reward/std", words: "spread of rewards", say: num, note: "learning needs a spread" },
    { name: "entropy/mean", words: "entropy", say: num, note: "nats a token; near 0 nothing new is tried" }] },
  { ask: "Is it trained on what it sampled?", panels: ["alignment", "sampler", "klsampler", "masks", "stale"], rows: [
    { name: "tokens/alignment", words: "tokens aligned", say: pct1, rule: "alignment", note: "below 100% is a defect" },
    { name: "kl/sampler", words: "KL from the sampler", say: num, rule: "kl_sampler", note: "should be near 0" },
    { name: "mask/learnable_fraction", words: "tokens learned from", say: pct, y: [0, 1], rule: "learnable_fraction", note: "the rest was dropped by a correction" }] },
  { ask: "Is the update stable?", panels: ["active", "klreference", "ratio", "spread", "skipped"], rows: [
    { name: "kl/reference", words: "KL from the reference", say: num, rule: "kl_reference", note: "how far the policy has gone" },
    { name: "gradient/norm", words: "gradient norm", say: num, note: "spikes: one batch pulls hard" },
    { name: "loss/policy", words: "policy loss", say: num, note: "only a jump says something" }] },
  { ask: "Do tools and format hold?", panels: ["cut", "toolerrors"], rows: [
    { name: "tools/error_rate", words: "calls failed, the model's fault", say: pct1, rule: "tool_errors", tone: "fault" },
    { name: "format/error_rate", words: "turns that cannot be read", say: pct1, tone: "fault" },
    { name: "truncation/rate", words: "episodes cut off", say: pct1, rule: "truncation", tone: "fault" },
    { name: "episodes/lost", words: "episodes lost to infrastructure", say: whole, tone: "infra", note: "played again, never scored" }] },
  { ask: "Where does the time go?", panels: [], rows: [
    { name: "time/rollout_seconds", words: "playing, a step", say: took },
    { name: "time/update_seconds", words: "learning, a step", say: took },
    { name: "rollout/tokens_per_second", words: "tokens a second", say: whole },
    { name: "memory/resident_gib", words: "memory, GiB", say: num }] },
];

export const VITALS = QUESTIONS.flatMap((question) => question.rows);
