// Success on held-out tasks, by family and difficulty, and what changed.

import { ask } from "./api.js";
import { brief, cells, figure, make, number, percent, seconds, table } from "./dom.js";
import { intervals } from "./intervals.js";
import { go, moved } from "./place.js";
import { nameOf } from "./source.js";

export async function evaluations(runs, settings) {
  const run = runs.find((each) => each.name === settings.run) || runs[0];
  const found = await ask("evaluations", { run: run.name });
  const whole = found.filter((each) => !each.error);
  const section = make("section", {}, make("h2", {}, "Evaluations"));
  if (!whole.length) return section.append(make("p", { id: "evaluations" }, "No evaluation is finished yet.")), section;
  section.append(listOf(found, run));
  const before = whole.find((each) => each.name === settings.before) || whole[0];
  const after = whole.find((each) => each.name === settings.after) || whole[whole.length - 1];
  section.append(pair(whole, before, after), ...breakdowns(before, after, run));
  if (before !== after) section.append(changeOf(await ask("comparison", { run: run.name, before: before.name, after: after.name }), before, after));
  return section;
}

function interval(estimate) {
  if (!estimate) return "–";
  const bounds = estimate.low === null ? "" : [" [", percent(estimate.low), " ", percent(estimate.high), "]"];
  return make("span", {}, percent(estimate.value), bounds);
}

function listOf(found, run) {
  const rows = found.map((each) => each.error ? make("tr", {}, cells(nameOf(each.name), each.error)) : make("tr", { "data-name": each.name }, cells(
    nameOf(each.name), interval(each.all.success), number(each.all.num_tasks), number(each.all.num_episodes), Object.entries(each.all.pass_at_k).map(([k, value]) => "@" + k + " " + figure(value)).join(", "),
    number(each.all.turns.value), number(each.all.tokens.value), percent(each.all.tool_error_rate), percent(each.all.format_error_rate), seconds(each.seconds),
    make("a", { href: moved({ run: run.name, source: each.name, success: "0" }, "trajectories") }, "failures"))));
  return make("div", {}, table(["evaluation", "success [95%]", "tasks", "episodes", "pass", "turns", "tokens", "tool errors", "format errors", "took", ""], rows, { id: "evaluations" }),
    make("p", { class: "note" }, "Success with the interval that holds the true rate at 95%; pass@k: the chance that at least one of k tries is right."));
}

function pair(whole, before, after) {
  const pick = (name, chosen) => make("label", {}, name + " ", make("select", { id: name, onchange: (event) => go({ [name]: event.target.value }) }, whole.map((each) => make("option", { value: each.name, selected: each === chosen }, nameOf(each.name)))));
  return make("p", { class: "settings" }, pick("before", before), pick("after", after));
}

// The share, and where some failed, the way to those.
function shareOf(estimate, failures) {
  return estimate && estimate.value < 1 ? [interval(estimate), " ", make("a", { href: moved(failures, "trajectories") }, "failures")] : interval(estimate);
}

function breakdowns(before, after, run) {
  const sides = before === after ? [before] : [before, after];
  return [["family", "by_family"], ["difficulty", "by_difficulty"]].map(([word, key]) => {
    const labels = [...new Set(sides.flatMap((side) => Object.keys(side[key])))];
    const rows = labels.map((label) => ({ label: label || "–", estimates: sides.map((side) => side[key][label] ? side[key][label].success : null) }));
    return make("figure", { class: "chart plain", tabindex: "0" }, make("figcaption", {}, make("h3", {}, "Success by " + word),
      make("p", { class: "note" }, "Each dot is a share of episodes that succeeded, its line the 95% interval: ", sides.map((side, place) => [make("span", { class: "key c" + (place + 1) }, nameOf(side.name)), " "]))),
    intervals(rows, key), table([word, ...sides.map((side) => nameOf(side.name))], rows.map((row) => make("tr", { "data-label": brief(row.label) }, cells(brief(row.label),
      ...row.estimates.map((estimate, place) => shareOf(estimate, { run: run.name, source: sides[place].name, [word]: row.label === "–" ? "" : row.label, success: "0" })))))));
  });
}

function changeOf(found, before, after) {
  if (!found.all) return make("p", {}, "The two have no task in common.");
  const row = (name, each) => make("tr", { "data-label": brief(name) }, cells(brief(name), number(each.value), each.low === null ? "–" : [number(each.low), " to ", number(each.high)], number(each.num_tasks)));
  return make("div", { id: "change" }, make("h3", {}, "What changed: " + nameOf(before.name) + " → " + nameOf(after.name)),
    table(["", "success, after − before", "95%", "tasks"], [row("all", found.all), ...Object.entries(found.families).map(([name, each]) => row(name, each))]),
    make("p", { class: "note" }, "Task by task over the same tasks; where the interval does not hold 0, the change is not chance."));
}
