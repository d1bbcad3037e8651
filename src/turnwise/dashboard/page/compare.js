// Several runs: who is best, by how much, and which key of the recipe made the difference.

import { ask } from "./api.js";
import { axisOf, rangeOf } from "./axes.js";
import { dumbbell, forest, lines, opener } from "./charts.js";
import { answer, brief, isKnown, lazy, make, num, options, part, pct, plural, points, seconds, shortPath, table, titleOf, words } from "./dom.js";
import { HEALTH, OVERVIEW, TOOLS } from "./figures.js";
import { colourOf, meansOf, panelsOf, spanOf, viewMenu } from "./panels.js";
import { go, link, moved, place } from "./place.js";

const MAX_COMPARED = 12; // unless others are chosen: of more lines none can be told from another
const OUTPUT_KEYS_SHOWN = ["run.name", "run.tags", "run.folder", "run.checkpoint_every", "run.keep_checkpoints", "trackers", "evaluation.num_samples"];

export async function compare(chosen, settings, runs) {
  if (runs.length < 2) return make("div", {}, answer(runs.length ? "One run alone cannot be compared." : "No run in this folder yet."));
  const success = (run) => run.standing.heldout.after ?? -1, wanted = chosen.length ? chosen : [...runs].filter((run) => run.standing.last_step !== null).sort((a, b) => success(b) - success(a)).slice(0, MAX_COMPARED);
  const shown = wanted.length ? wanted : runs.slice(-2), base = shown.find((run) => run.name === settings.base) || shown[0], all = [base, ...shown.filter((run) => run !== base)];
  const found = shown.length > 1 ? await ask("paired", { run: base.name, other: all.slice(1).map((run) => run.name) }) : { heading: "Choose a second run to compare with.", found: {} };
  const colour = (run) => colourOf(all.indexOf(run)), label = (run) => labelOf(run, all), swatch = (run) => make("span", { class: "swatch", style: "background:" + colour(run) });
  const gaps = all.slice(1).map((run) => [run, found.found[run.name]]).filter(([, each]) => each && each.all), least = Math.min(...all.map((run) => run.standing.last_step === null ? 0 : run.standing.last_step + 1));
  return make("div", {}, answer(named(found.heading, all, label), { eyebrow: plural(all.length, "run") + (chosen.length ? "" : ", the best measured; choose others among all runs"), lead: leadOfComparison(all, least, label) }),
    make("section", { id: "between" }, make("div", { class: "filters" }, make("label", {}, "compared with ", make("select", { id: "base", onchange: (event) => go({ base: event.target.value }) }, options(all.map((run) => [run.name, brief(run.name, 60)]), base.name))), make("a", { class: "pill", href: link("runs", { runs: place().settings.runs }) }, "choose runs"), viewMenu(settings, { hasSeeds: true })),
      await courses(all, settings, colour, label)),
    differsPart(all, base, swatch, label), gapsPart(gaps, base, swatch, label, found.found, all),
    make("section", {}, lazy("all-figures", "All figures of these runs, one chart each", async () => [await panelsOf([...OVERVIEW, ...HEALTH, ...TOOLS], all, settings)], { isOpen: Boolean(settings.figures || settings.axis || settings.first || settings.last || settings.smooth || settings.log) })));
}

// A run's title; its time too if another one has the same.
function labelOf(run, all) {
  const { title, when } = titleOf(run.name), isTwice = all.filter((each) => titleOf(each.name).title === title).length > 1;
  return brief(isTwice && when ? title + " " + when : title, 40);
}

function named(heading, all, label) {
  const run = [...all].sort((a, b) => b.name.length - a.name.length).find((each) => heading.startsWith(each.name + " ") || heading.includes(": " + each.name + " "));
  return run ? heading.replace(run.name, label(run)) : heading;
}

function leadOfComparison(all, least, label) {
  const running = all.filter((run) => run.standing.state === "running"), at = all.filter((run) => run.standing.course.length);
  const share = (run) => { const { course, last_step: last } = run.standing, i = Math.min(course.length - 1, Math.floor(course.length * least / (last + 1)) - 1); return course[Math.max(0, i)]; };
  const leading = least > 1 && at.length > 1 ? at.reduce((best, run) => share(run) > share(best) ? run : best) : null;
  return [leading ? ["After " + plural(least, "step") + ", ", make("b", {}, label(leading) + " (" + pct(share(leading)) + ")"), " led in training. "] : "", running.map((run) => label(run) + " is still running. "), "One run of each: how much runs of one recipe differ by their seed is not measured."];
}

async function courses(all, settings, colour, label) {
  const axis = axisOf(settings), found = await Promise.all(all.map((run) => ask("series", { run: run.name, name: ["success/rate"], ...rangeOf(settings) })));
  const drawn = all.map((run, at) => ({ run, line: found[at]["success/rate"] })).filter(({ line }) => line && (line.xs || line.steps).length).map(({ run, line }) => {
    const means = meansOf(line.values, settings.smooth);
    return { ...line, xs: line.xs || line.steps, run: run.name, name: "success/rate", label: label(run), means, colour: colour(run), width: run === all[0] ? 2.5 : 2, lows: null, highs: null };
  });
  if (!drawn.length) return make("p", { class: "quiet" }, "None of them has finished a step.");
  const isRange = ["first", "last", "from", "to"].some((name) => settings[name]);
  return lines({ key: "courses", title: "Training success", note: "means over neighbouring steps", height: 340, right: 170, axis, span: axis === "step" && !isRange ? Math.max(...all.map(spanOf)) : 0, start: axis === "step" && !isRange ? 0 : Math.min(...drawn.map((line) => line.xs[0])), y: [0, 1], say: pct, drawn, open: opener(drawn) });
}

function differsPart(all, base, swatch, label) {
  const values = all.map(({ standing }) => standing.differs), keys = [...new Set(values.flatMap((each) => Object.keys(each)))].filter((key) => new Set(values.map((each) => each[key])).size > 1).sort();
  const main = keys.filter((key) => !OUTPUT_KEYS_SHOWN.includes(key)), rest = keys.filter((key) => OUTPUT_KEYS_SHOWN.includes(key));
  const valueOf = (run, key) => { const value = run.standing.differs[key]; return value === undefined ? make("span", { class: "faint" }, "not there") : isKnown(Number(value)) && value !== "" ? num(Number(value)) : value.includes("/") ? shortPath(value) : brief(value, 60); };
  const row = (run, some, isWhole) => {
    const [before, after] = ["before", "after"].map((which) => run.standing.intervals[which] || (isKnown(run.standing.heldout[which]) ? { value: run.standing.heldout[which] } : null));
    return make("tr", { "data-run": run.name }, make("td", { class: "name" }, make("a", { href: link("overview", { run: run.name }), title: run.name }, make("b", {}, swatch(run), label(run)), run === base ? make("span", { class: "tag" }, "compared with") : "")),
      some.map((key) => make("td", { class: "num" + (run.standing.differs[key] === base.standing.differs[key] && run !== base ? " faint" : ""), "data-key": run.name + " " + key, title: run.standing.differs[key] }, valueOf(run, key))), isWhole ? [make("td", { class: "desk" }, before || after ? dumbbell(before, after) : ""), make("td", { class: "num" }, make("b", {}, pct(after && after.value))), make("td", { class: "num desk" }, seconds(run.standing.seconds))] : "");
  };
  const keyHead = (key) => ({ words: key, kind: "num", more: { title: key } }), heads = (some) => ["run", ...some.map(keyHead), { words: "held out: ○ before, ● after", kind: "desk" }, { words: "after", kind: "num" }, { words: "took", kind: "num desk" }];
  return part("What differs?", main.length ? plural(main.length, "key") + " of the recipes; equal to " + label(base) + " in grey" : "the recipes are the same in all that changes what is learned", table(heads(main), all.map((run) => row(run, main, true)), { id: "recipes" }),
    rest.length ? lazy("more-keys", plural(rest.length, "key") + " that do not change what is learned", () => [table(["run", ...rest.map(keyHead)], all.map((run) => row(run, rest, false)))]) : "");
}

function gapsPart(gaps, base, swatch, label, found, all) {
  const missing = all.slice(1).map((run) => found[run.name]).filter((each) => each && (each.error || !each.all)).map((each) => each.error || "two of them have no held-out task in common");
  const none = missing.map((said) => make("p", { class: "note missing" }, "No comparison: " + said + "."));
  if (!gaps.length) return make("section", { id: "paired" }, none);
  const ends = gaps.flatMap(([, each]) => [each.all.low, each.all.high, each.all.value]).filter(isKnown), reach = [Math.min(-0.1, Math.floor(10 * Math.min(...ends)) / 10), Math.max(0.1, Math.ceil(10 * Math.max(...ends)) / 10)];
  const families = [...new Set(gaps.flatMap(([, each]) => Object.keys(each.families)))].filter((family) => family !== "-").slice(0, 24);
  const cell = (each) => { if (!each) return make("td", { class: "desk" }); const isSure = isKnown(each.low) && (each.low > 0 || each.high < 0); return make("td", { class: "num desk" + (isSure ? "" : " faint"), title: points(each.value) + " points" + (isKnown(each.low) ? ", " + points(each.low) + " to " + points(each.high) : "") + ", " + plural(each.num_tasks, "task"), style: isSure ? "background:rgb(var(--" + (each.value > 0 ? "plus" : "minus") + ") / " + Math.min(0.3, 0.06 + Math.abs(each.value) / 2).toFixed(2) + ")" : "" }, points(each.value)); };
  const rows = gaps.map(([run, each]) => make("tr", { "data-label": run.name }, make("td", { class: "nowrap" }, swatch(run), make("b", {}, label(run))), make("td", { class: "num" }, make("b", {}, points(each.all.value))), make("td", { title: isKnown(each.all.low) ? points(each.all.low) + " to " + points(each.all.high) : "" }, forest(each.all, reach)), make("td", { class: "num desk faint" }, String(each.num_tasks) + (each.num_left_out ? " (" + each.num_left_out + " in one only)" : "")), families.map((family) => cell(each.families[family]))));
  return make("section", { id: "paired" }, make("div", { class: "head" }, make("h2", {}, "How sure is the difference?"), make("p", {}, "held-out success minus that of " + label(base) + ", in points, task by task; hollow: could be chance")), table(["", { words: "all", kind: "num" }, "95% interval", { words: "tasks", kind: "num desk" }, ...families.map((family) => ({ words: words(family), kind: "num desk" }))], rows), none,
    make("p", { class: "note" }, "The interval is about other tasks of this kind. It does not cover how much training itself varies from seed to seed. ", make("a", { class: "link", href: moved({ seeds: "each", figures: 1 }) }, "every seed as a line of its own")));
}
