// A run's overview: the answer as a sentence, its picture, what each family does, health, what still goes wrong, the recipe.

import { ask } from "./api.js";
import { rangeOf } from "./axes.js";
import { dumbbell, lines, opener, pathOf, sized, slopes } from "./charts.js";
import { answer, brief, draw, fullTitle, isKnown, lazy, longText, make, num, number, part, pct, percent, plural, points, roughly, seconds, shortPath, table, titleOf, took, whole, words } from "./dom.js";
import { OVERVIEW, VITALS } from "./figures.js";
import { meansOf, panelsOf, spanOf, viewMenu } from "./panels.js";
import { go, moved } from "./place.js";
import { dotOf, ENDED_BADLY } from "./shell.js";
import { nameOf } from "./source.js";
import { vitals } from "./vitals.js";

const RECENT = 10, MAX_FAILED = 200, MAX_PROBLEMS = 20, MAX_FAMILIES = 18;

// What is known from the list of runs, before the run itself is read.
export function firstWords(run) {
  return make("div", {}, answer(run.standing.answer.words, { eyebrow: eyebrowOf(run) }));
}

export async function overview([run], settings) {
  const { standing } = run, name = run.name, [names, evaluations, alarms, kinds] = await Promise.all([ask("names", { run: name }), ask("evaluations", { run: name }), ask("alarms", { run: name }), ask("kinds", { run: name })]);
  const families = names.filter((each) => each.startsWith("success/") && each !== "success/rate"), wanted = ["success/rate", "validation/success", ...families, ...VITALS.map((row) => row.name)].filter((each) => names.includes(each));
  const [before, after] = ["before", "after"].map((which) => evaluations.find((each) => each.name === which && !each.error));
  const [found, change, failed] = await Promise.all([wanted.length ? ask("series", { run: name, name: wanted, ...(rangeOf(settings).axis ? {} : rangeOf(settings)) }) : {}, before && after ? ask("comparison", { run: name, before: "before", after: "after" }).catch(() => null) : null, failedOf(run, after)]);
  const all = familiesOf(families, found, before, after, settings), success = found["success/rate"];
  return make("div", {}, answer(standing.answer.words, { eyebrow: eyebrowOf(run), lead: leadOf(run, change, before, alarms, all, success) }), progressOf(run), problemsOf(standing),
    picturesOf(run, found, all, before, after, settings, kinds), all.length > 1 ? familiesPart(run, all, after, found) : "",
    part("Is it healthy?", alarmWords(alarms, standing.state) + " A row opens its chart; a dashed line is an alarm's limit.", vitals(run, found, alarms)),
    failuresPart(run, failed, after), figuresPart(run, settings, names), recipePart(run, evaluations));
}

function eyebrowOf({ standing, name }) {
  const { when } = titleOf(name), parts = [[dotOf(standing.state), " ", standing.state === "running" ? "running" + (when ? " since " + when : "") : standing.state + (isKnown(standing.seconds) ? (standing.state === "finished" ? " in " : " after ") + took(standing.seconds) : "")],
    standing.model ? brief(standing.model, 60) + (standing.model.includes("/") ? "" : " model") : "", standing.recipe_file ? make("span", { title: standing.recipe_file }, "recipe " + shortPath(standing.recipe_file)) : ""].filter(Boolean);
  return parts.map((each, i) => [i ? make("span", {}, " · ") : "", each]);
}

function alarmWords({ groups, num_groups: num_ }, state) {
  return groups.length ? plural(num_, "kind") + " of alarm fired." : state === "running" ? "No alarm so far." : "No alarm fired.";
}

// What the sentence rests on, how long it will still take, and where it is weakest.
function leadOf(run, change, before, alarms, families, success) {
  const { standing } = run, said = [], isLive = standing.state === "running", done = standing.last_step === null ? 0 : standing.last_step + 1;
  if (isLive && standing.num_steps) {
    const pace = standing.step_seconds.length ? standing.step_seconds.reduce((a, b) => a + b, 0) / standing.step_seconds.length : null;
    if (!done) said.push(before ? "The first step is being played. " : isKnown(standing.evaluation_seconds) ? "" : "The held-out tasks are played for the figure before training, then the first step. ");
    else said.push(make("b", {}, "Step " + done + " of " + standing.num_steps + (isKnown(standing.left_seconds) ? ", about " + roughly(standing.left_seconds) + " left" : "")), pace === null ? ". " : " at " + took(pace) + " a step" + (isKnown(standing.left_seconds) && isKnown(standing.evaluation_seconds) ? ", held-out evaluation included. " : ". "));
  }
  if (standing.state === "stopped") said.push("It goes on with ", make("code", {}, "turnwise train --resume " + standing.folder), ". ");
  if (ENDED_BADLY.includes(standing.state)) said.push(standing.state === "halted" ? make("a", { class: "link", href: moved({}, "health") }, "Health") : make("a", { class: "link", href: moved({}, "log") }, "The log"), standing.state === "halted" ? " says what to look at. " : " has its last lines. ");
  if (change && change.all) {
    const { value, low, high, num_tasks: num_ } = change.all;
    said.push("The change is ", make("b", {}, points(value) + " points"), isKnown(low) ? " (95% interval " + points(low) + " to " + points(high) + ")" : "", ", measured on " + plural(num_, "held-out task") + ", " + plural(before.num_samples, "try", "tries") + " each. ", change.num_worse ? plural(change.num_worse, "task") + " got worse. " : "No task got worse. ");
  } else if (before) said.push("Held-out success was " + pct(before.all.success.value) + " before training. ");
  if (success && success.values.length && success.values.length < 5) said.push("Training success was " + success.values.map(pct).join(", ") + "; it varies by chance from one step to the next. ");
  said.push(alarmWords(alarms, standing.state) + " ");
  const [worst] = families;
  if (families.length > 1 && worst && isKnown(worst.shown)) said.push("Weakest family: ", make("a", { class: "link", id: "weakest", href: episodesOfFamily(run, worst) }, words(worst.key)), ", " + pct(worst.shown) + ".");
  return said;
}

function progressOf({ standing }) {
  if (standing.state !== "running" || !standing.num_steps) return "";
  const share = 100 * (standing.last_step === null ? 0 : standing.last_step + 1) / standing.num_steps;
  return make("div", { class: "progress", role: "progressbar", "aria-label": "steps done", "aria-valuenow": Math.round(share), "aria-valuemin": 0, "aria-valuemax": 100 }, make("i", { style: "width:" + share.toFixed(1) + "%" }));
}

// Why a run ended, in full, and files of its folder that cannot be used.
function problemsOf({ state, reason, problems }) {
  const isBad = ENDED_BADLY.includes(state), isLong = reason && (reason.length > 120 || reason.includes("\n"));
  return [reason && (isLong || !isBad) ? make("div", { class: "notice ended" + (isBad ? "" : " info"), "data-state": state }, longText(reason, "reason")) : reason ? make("div", { class: "ended sr", "data-state": state }, reason) : "",
    problems && problems.length ? make("div", { class: "notice", "data-problems": problems.length }, make("div", {}, make("b", {}, "damaged files"), longText(problems.slice(0, MAX_PROBLEMS).join("\n")), problems.length > MAX_PROBLEMS ? make("p", { class: "note" }, plural(problems.length - MAX_PROBLEMS, "other")) : "")) : ""];
}

// The weakest first: on held-out tasks if they were played, else in the last steps of training.
function familiesOf(names, found, before, after, settings) {
  const rate = (evaluation, key) => evaluation && evaluation.by_family[key] ? evaluation.by_family[key].success.value : null;
  const all = names.filter((name) => found[name] && found[name].values.some(isKnown)).map((name) => {
    const key = name.slice(8), { steps, values } = found[name], curve = meansOf(values, settings.smooth) || values, known = curve.filter(isKnown), measured = rate(after, key);
    return { key, name, steps, values, curve, recent: known[known.length - 1], before: rate(before, key), after: measured, shown: isKnown(measured) ? measured : known[known.length - 1] };
  });
  return all.sort((a, b) => a.shown - b.shown || a.recent - b.recent);
}

function episodesOfFamily(run, family) {
  return isKnown(family.after) ? moved({ run: run.name, source: "after", family: family.key, success: "0", list: "tries" }, "trajectories") : moved({ run: run.name, source: "train", family: family.key, success: "0" }, "trajectories");
}

function picturesOf(run, found, families, before, after, settings, kinds) {
  const success = found["success/rate"], validation = found["validation/success"], slope = families.filter((each) => isKnown(each.before) && isKnown(each.after));
  if (!success || !success.values.length) return before ? part("Held-out success", "before training, on a scale from 0 to 100%", dumbbell(before.all.success, after && after.all.success, { wide: Math.min(600, document.documentElement.clientWidth - 60) })) : "";
  const means = meansOf(success.values, settings.smooth), shown = means || success.values, now = shown.filter(isKnown).pop(), isRange = settings.first || settings.last;
  const drawn = [{ run: run.name, name: "success/rate", label: "training", labelled: (after ? "training " : "") + pct(now), sub: after ? null : "training", xs: success.steps, ...success, means, colour: "var(--s1)", width: 2.5 }];
  if (validation && validation.values.length) drawn.push({ run: run.name, name: "validation/success", label: "validation", xs: validation.steps, ...validation, means: null, colour: "var(--s3)", dash: "5 3", isDots: validation.values.length < 2, sub: null });
  const end = (which, evaluation, label, sub) => evaluation ? [{ side: which, ...evaluation.all.success, label, sub }] : [];
  const ends = isRange ? [] : [...end("left", before, before && pct(before.all.success.value), "held out, before"), ...end("right", after, after && "held out " + pct(after.all.success.value), null)];
  const main = lines({ key: "success", title: "Success", note: "share of tries that did all their task asks" + (means ? "; thick: mean over neighbouring steps" : ""), height: 320, span: isRange ? 0 : spanOf(run), start: isRange ? success.steps[0] : 0, y: [0, 1], say: pct, right: 116, drawn, ends, open: opener(drawn), lead: viewMenu(settings),
    events: (run.standing.events || []).map(({ step, words: said }) => ({ x: step, words: said })).filter((event) => event.x <= spanOf(run)), describe: "Training success from " + pct(success.values[0]) + " to " + pct(now) + ". " + (before ? "Held out " + pct(before.all.success.value) + " before" + (after ? ", " + pct(after.all.success.value) + " after" : "") + "." : "") });
  const side = slope.length > 1 ? slopes({ title: "By family", note: "held out", height: 320, rows: [...slope].sort((a, b) => b.after - a.after).slice(0, MAX_FAMILIES).map((each) => ({ name: words(each.key), before: each.before, after: each.after, isMain: each === families[0] })) }) : rightNow(run, kinds);
  return make("section", { class: "two" + (slope.length > 1 ? " wide-side" : ""), id: "picture" }, main, side);
}

// The last step in figures.
function rightNow({ standing }, kinds) {
  const last = kinds.steps[kinds.steps.length - 1], facts = [["steps", (standing.last_step === null ? 0 : standing.last_step + 1) + (standing.num_steps ? " of " + standing.num_steps : "")], ["success, last step", pct(standing.latest["success/rate"])], ["reward, last step", num(standing.latest["reward/mean"])],
    standing.step_seconds.length ? ["last step took", took(standing.step_seconds[standing.step_seconds.length - 1])] : null, last ? ["groups that teach", last.some + " of " + (last.all + last.some + last.none)] : null, standing.checkpoints.length ? ["last checkpoint", "after step " + standing.checkpoints[standing.checkpoints.length - 1]] : null, isKnown(standing.num_tokens) ? ["tokens sampled", whole(standing.num_tokens)] : null].filter(Boolean);
  return make("div", { id: "now" }, make("h3", {}, standing.state === "running" ? "Right now" : "Its last step"), make("dl", { class: "facts" }, facts.map(([name, value]) => [make("dt", {}, name), make("dd", {}, value)])));
}

// One small multiple a family, on one scale, all families together in grey behind.
function familiesPart(run, families, after, found) {
  const all = found["success/rate"], span = spanOf(run), mean = all ? meansOf(all.values) || all.values : [];
  const multiple = (family, at) => {
    const colour = at ? "var(--s1)" : "var(--hot)", paint = (wide) => {
      const high = 76, X = (x) => 2 + x / Math.max(span, 1) * (wide - 8), Y = (y) => high - 6 - y * (high - 14), end = family.curve.length - 1;
      return draw("svg", { viewBox: "0 0 " + wide + " " + high, height: high, role: "img", "aria-label": words(family.key) + ", training success " + pct(family.recent) }, draw("line", { class: "rule", x1: 0, x2: wide, y1: Math.round(Y(1)), y2: Math.round(Y(1)) }), draw("line", { class: "base", x1: 0, x2: wide, y1: Math.round(Y(0)), y2: Math.round(Y(0)) }),
        draw("path", { class: "behind", d: pathOf(all ? all.steps : [], mean, X, Y) }), draw("path", { class: "raw", d: pathOf(family.steps, family.values, X, Y), stroke: colour }), draw("path", { class: "mean", d: pathOf(family.steps, family.curve, X, Y), stroke: colour, "stroke-width": 1.75 }), isKnown(family.curve[end]) ? draw("circle", { cx: X(family.steps[end]), cy: Y(family.curve[end]), r: 3, fill: colour }) : "");
    };
    return make("a", { class: "multiple", "data-key": "family " + brief(family.key), href: episodesOfFamily(run, family), title: "its failed episodes" }, make("div", { class: "top" }, make("h3", {}, words(family.key)), make("b", {}, pct(family.recent))), sized({ class: "picture" }, paint),
      make("p", {}, isKnown(family.before) ? "held out " + pct(family.before) + (isKnown(family.after) ? " → " + pct(family.after) : ", before") : ""));
  };
  return part("What can it do, and what not yet?", "training success by family, the weakest " + (after ? "on held-out tasks " : "") + "first; grey is all families together", make("div", { class: "multiples" }, families.slice(0, MAX_FAMILIES).map(multiple)),
    families.length > MAX_FAMILIES ? make("p", { class: "note" }, plural(families.length - MAX_FAMILIES, "other family", "other families") + " under all figures.") : "");
}

async function failedOf(run, after) {
  const last = run.standing.last_step, asked = { run: run.name, success: "0", limit: MAX_FAILED };
  const lists = await Promise.all([last === null ? null : ask("trajectories", { ...asked, source: "train", first: Math.max(0, last - RECENT + 1) }), after ? ask("trajectories", { ...asked, source: "after" }) : null]);
  return { rows: lists.flatMap((list) => list ? list.rows : []), total: lists.reduce((sum, list) => sum + (list ? list.total : 0), 0) };
}

const CAUSES = [["fault", "infra", "infrastructure failed"], ["fault", "reward", "not judged: its reward failed"], ["fault", "format", "a turn could not be read"], ["fault", "model", "a call failed, the model's fault"]];

function failuresPart(run, { rows, total }, after) {
  if (!rows.length) return "";
  const kinds = new Map();
  for (const row of rows) {
    const known = CAUSES.find(([key, value]) => row[key] === value), said = known ? known[2] : row.failed_check === "answer" ? "wrong answer, all calls fine" : row.failed_check ? "check “" + brief(row.failed_check, 40) + "” not met" : "no success";
    const filter = known ? { [known[0]]: known[1] } : row.failed_check ? { check: row.failed_check, fault: "none" } : {};
    kinds.set(said, { filter, rows: [...(kinds.get(said) || { rows: [] }).rows, row] });
  }
  const ranked = [...kinds].sort((a, b) => b[1].rows.length - a[1].rows.length), most = ranked[0][1].rows.length;
  const row = ([said, { filter, rows: own }]) => {
    const one = own.find((each) => each.source === "after") || own[0], address = moved({ run: run.name, success: "0", list: "tries", ...filter }, "trajectories");
    return make("tr", { class: "go", "data-key": "cause " + said, onclick: (event) => { if (!event.target.closest("a")) location.hash = address; } }, make("td", { class: "nowrap" }, make("a", { class: "to", href: address }, make("b", {}, said))), make("td", { class: "num" }, String(own.length)), make("td", { class: "desk share" }, make("div", { class: "b", style: "width:" + Math.max(2, 100 * own.length / most) + "px" })),
      make("td", { class: "desk quiet cut" }, make("a", { href: moved({ run: run.name, id: one.id }, "trajectory") }, one.question)), make("td", { class: "desk cut short" }, one.expected), make("td", { class: "desk cut short" + (one.failed_check === "answer" ? " fault" : "") }, one.answer || "no answer"));
  };
  return part("What still goes wrong", plural(total, "failed try", "failed tries") + " in the last ten steps" + (after ? " and in the evaluation after training" : "") + (total > rows.length ? "; the causes are of " + rows.length + " of them" : ""),
    table(["cause", { words: "tries", kind: "num" }, { words: "", kind: "desk" }, { words: "for example", kind: "desk" }, { words: "expected", kind: "desk" }, { words: "said", kind: "desk" }], ranked.map(row), { class: "rows", id: "failures" }));
}

// Every figure of the run as a chart, also those that only `draw also` names.
function figuresPart(run, settings, names) {
  const extra = (settings.extra || "").split(",").filter(Boolean), panels = [...extra.map((name) => ({ key: "extra-" + name.replaceAll("/", "-"), title: name, names: [name], note: "As logged under this name." })), ...OVERVIEW];
  const field = make("input", { id: "any", class: "pill", list: "names", size: 30, placeholder: "any other figure by name" });
  const add = () => names.includes(field.value) && go({ extra: [...extra, field.value].join(","), figures: 1 });
  return make("section", { id: "figures" }, lazy("all-figures", "All figures", async () => [viewMenu(settings), await panelsOf(panels, [run], settings)], { isOpen: Boolean(settings.figures || extra.length || settings.axis) }),
    make("form", { class: "filters", onsubmit: (event) => { event.preventDefault(); add(); } }, make("label", {}, "draw also ", field), make("datalist", { id: "names" }, names.map((name) => make("option", { value: name }, name))), make("button", { type: "submit", class: "pill" }, "draw")));
}

function recipePart({ name, standing }, evaluations) {
  const differs = Object.entries(standing.differs || {}).filter(([key]) => key !== "run.name");
  const facts = [["run", fullTitle(name)], ["folder", make("span", { class: "mono", title: standing.folder }, standing.folder.split("/").slice(-2).join("/"))], ["recipe", make("span", { title: standing.recipe_file || "" }, standing.recipe_file ? shortPath(standing.recipe_file) : "–")], ["model", brief(standing.model)], ["algorithm", standing.algorithm], ["tags", (standing.tags || []).join(", ") || "–"],
    ["episodes of training", number(Math.round(standing.num_episodes || 0))], ["device hours", isKnown(standing.device_hours) ? num(standing.device_hours) + " " + standing.device + " h" : "–"], ["took", seconds(standing.seconds)], ...evaluations.filter((each) => !each.error).map((each) => [nameOf(each.name), percent(each.all.success.value)])];
  return make("section", {}, make("details", { class: "more", id: "recipe" }, make("summary", {}, "Recipe and files"), make("dl", { class: "facts left" }, facts.map(([key, value]) => [make("dt", {}, key), make("dd", {}, value)])),
    differs.length ? [make("h3", {}, "Where its recipe differs from other runs'"), make("dl", { class: "facts left" }, differs.map(([key, value]) => [make("dt", { class: "mono" }, brief(key, 80)), make("dd", { class: "mono" }, brief(value, 120))]))] : ""));
}
