// Success on held-out tasks, by family and difficulty, and what changed.

import { ask } from "./api.js";
import { brief, cells, figure, make, number, percent, seconds, table } from "./dom.js";
import { intervals } from "./intervals.js";
import { go, moved } from "./place.js";
import { nameOf } from "./source.js";

const FEW_TASKS = 10; // with fewer tasks an interval is so wide that a change says little

export async function evaluations(runs, settings) {
  const run = runs.find((each) => each.name === settings.run) || runs[0];
  const found = await ask("evaluations", { run: run.name });
  const whole = found.filter((each) => !each.error);
  const section = make("section", {}, make("h2", {}, "Evaluations"));
  if (!whole.length) return section.append(make("p", { id: "evaluations" }, "No evaluation is finished yet.")), section;
  const before = whole.find((each) => each.name === settings.before) || whole[0];
  const after = whole.find((each) => each.name === settings.after) || whole[whole.length - 1];
  const change = before === after ? null : await ask("comparison", { run: run.name, before: before.name, after: after.name }).catch((error) => ({ all: null, families: {}, worse: [], error: error.message }));
  section.append(listOf(found, run), pair(whole, before, after), changeOf(change, before, after, run),
    breakdownBy("difficulty", "by_difficulty", before, after, run), breakdownBy("message", "by_message", before, after, run), worseOf(change, before, after, run));
  return section;
}

function interval(estimate) {
  if (!estimate) return "–";
  const bounds = estimate.low === null ? "" : [" [", percent(estimate.low), " ", percent(estimate.high), "]"];
  return make("span", {}, percent(estimate.value), bounds);
}

function listOf(found, run) {
  const rows = found.map((each) => each.error ? make("tr", {}, cells(nameOf(each.name), each.error)) : make("tr", { "data-name": each.name }, cells(
    nameOf(each.name), interval(each.all.success), number(each.all.num_tasks), number(each.all.num_episodes), Object.entries(each.all.pass_at_k).map(([k, value], place) => [place ? ", " : "", "@" + k + " ", percent(value)]),
    number(each.all.turns.value), number(each.all.tokens.value), percent(each.all.tool_error_rate), percent(each.all.format_error_rate), seconds(each.seconds),
    make("a", { href: moved({ run: run.name, source: each.name, success: "0" }, "trajectories") }, "failures"))));
  return make("div", {}, table(["evaluation", "success [95%]", "tasks", "episodes", "pass@k", "turns", "tokens", "tool errors", "format errors", "took", ""], rows, { id: "evaluations" }),
    make("p", { class: "note" }, "Success with the interval that holds the true rate at 95%; pass@k: the chance that at least one of k tries is right."));
}

function pair(whole, before, after) {
  const pick = (name, chosen) => make("label", {}, name + " ", make("select", { id: name, onchange: (event) => go({ [name]: event.target.value }) }, whole.map((each) => make("option", { value: each.name, selected: each === chosen }, nameOf(each.name)))));
  return make("p", { class: "settings" }, pick("before", before), pick("after", after));
}

// What changed for each family, the worst first; the row of all comes before them.
function changeOf(change, before, after, run) {
  const words = change ? "What changed: " + nameOf(before.name) + " → " + nameOf(after.name) : "Success by family: " + nameOf(after.name);
  const paired = (label) => change && change.families[label || "-"];
  const rows = rowsOfChange("family", "by_family", before, after, run, paired);
  const all = { label: "all", estimates: sidesOfChange(before, after).map((side) => side.all.success), num: after.all.num_tasks, change: change && change.all, failing: { source: after.name, success: "0" }, earlier: { source: before.name } };
  return make("div", { id: "change" }, make("h3", {}, words), change && !change.all ? make("p", { class: "warn" }, change.error || "The two have no task in common.") : "", verdictOnChange(change, rows),
    pictureOfChange("Success by family", "family", rows, [all, ...rows], before, after, run));
}

// The answer in one sentence: whether it got better, and which families got worse.
function verdictOnChange(change, rows) {
  if (!change || !change.all) return "";
  const { value, low, high } = change.all;
  const isSure = low !== null && (low > 0 || high < 0);
  const worse = rows.filter((row) => row.change && row.change.value < 0).map((row) => brief(row.label, 40) + " (n = " + figure(row.num) + ")");
  const words = value === 0 ? "Success is the same" : (value > 0 ? "Success is higher" : "Success is lower") + (isSure ? ", by more than chance" : ", but it may be chance");
  return make("p", { id: "answer" }, words + ": ", signedPercent(value), low === null ? "" : [" [", signedPercent(low), " to ", signedPercent(high), "]"], " over ", number(change.all.num_tasks), " tasks. ",
    worse.length ? ["Worse: ", make("span", { class: "bad" }, worse.slice(0, 5).join(", ") + (worse.length > 5 ? " and " + figure(worse.length - 5) + " more" : "")), "."] : "No family is worse.");
}

function breakdownBy(word, key, before, after, run) {
  const rows = rowsOfChange(word, key, before, after, run, () => null);
  return rows.length ? make("div", { id: "by-" + word }, make("h3", {}, "Success by " + word), pictureOfChange("Success by " + word, word, rows, rows, before, after, run)) : "";
}

function sidesOfChange(before, after) {
  return before === after ? [after] : [before, after];
}

// One row a label, sorted by the change; without two sides, by success.
function rowsOfChange(word, key, before, after, run, paired) {
  const sides = sidesOfChange(before, after), of = (side, label) => (side[key] || {})[label];
  const labels = [...new Set(sides.flatMap((side) => Object.keys(side[key] || {})))];
  const rows = labels.map((label) => {
    const estimates = sides.map((side) => of(side, label) ? of(side, label).success : null), [one, other] = estimates;
    const filter = word === "message" ? {} : { [word]: label };
    return { label: label || "–", estimates, num: (of(after, label) || of(before, label)).num_tasks, change: paired(label) || (one && other ? { value: other.value - one.value, low: null, high: null } : null),
      failing: { ...filter, source: after.name, success: "0" }, earlier: { ...filter, source: before.name } };
  });
  const rank = (row) => row.change ? row.change.value : row.estimates[0] ? row.estimates[0].value : 2;
  return rows.sort((a, b) => rank(a) - rank(b)).map((row) => ({ ...row, isFew: row.num < FEW_TASKS, onpick: () => go({ run: run.name, ...row.failing }, "trajectories") }));
}

function pictureOfChange(title, word, rows, listed, before, after, run) {
  const sides = sidesOfChange(before, after), isPair = sides.length > 1;
  const few = rows.some((row) => row.isFew);
  return make("figure", { class: "chart plain" }, make("figcaption", {},
    make("p", { class: "note" }, "A dot is the share of episodes that succeeded, its line the 95% interval" + (isPair ? "; the largest loss is at the top." : ".")),
    make("p", {}, sides.map((side, place) => [make("span", { class: "key c" + (place + 1) }, nameOf(side.name)), " "]), few ? "Grey: fewer than " + FEW_TASKS + " tasks, too few to say much." : "")),
  intervals(rows, word, title), table([word, "tasks", ...sides.map((side) => nameOf(side.name)), ...(isPair ? ["after − before", "95%"] : []), "episodes"], listed.map((row) => rowOfChange(row, isPair, run))));
}

function rowOfChange(row, isPair, run) {
  const toEpisodes = (which, words, kind) => make("a", { class: kind, href: moved({ run: run.name, ...which }, "trajectories") }, words);
  const last = row.estimates[row.estimates.length - 1], { change } = row;
  const isWorse = change && change.value < 0;
  return make("tr", { "data-label": brief(row.label), class: row.isFew ? "few" : null }, cells(brief(row.label), [number(row.num), row.isFew ? " (few)" : ""], ...row.estimates.map(interval),
    ...(isPair ? [make("span", { class: isWorse ? "bad" : null }, change ? signedPercent(change.value) : "–"), change && change.low !== null ? [signedPercent(change.low), " to ", signedPercent(change.high)] : "–"] : []),
    [last && last.value < 1 ? toEpisodes(row.failing, "failures", "failing") : "none failed", isPair ? [" · ", toEpisodes(row.earlier, "the same tasks before", "earlier")] : ""]));
}

// A difference of two shares, with its sign.
function signedPercent(value) {
  return make("span", { class: "number", title: String(value) }, (value > 0 ? "+" : "") + (100 * value).toFixed(1) + "%");
}

// The tasks whose success fell, the largest fall first.
function worseOf(change, before, after, run) {
  if (!change || !change.all) return "";
  const toTask = (task, source, words) => make("a", { href: moved({ run: run.name, task, source }, "trajectories") }, words);
  const rows = change.worse.map((each) => make("tr", { "data-task": brief(each.task) }, cells(brief(each.task, 80), brief(each.family, 40), percent(each.before), percent(each.after),
    [toTask(each.task, after.name, "after"), " · ", toTask(each.task, before.name, "before")])));
  return make("div", { id: "worse" }, make("h3", {}, "Tasks that got worse"), rows.length ? table(["task", "family", nameOf(before.name), nameOf(after.name), "episodes"], rows) : make("p", {}, "None of the tasks in both."),
    change.num_worse > rows.length ? make("p", { class: "note" }, "The " + figure(rows.length) + " largest falls of " + figure(change.num_worse) + ".") : "",
    make("p", { class: "note" }, "Changes are computed task by task over the " + figure(change.num_tasks) + " tasks in both" + (change.num_left_out ? "; " + figure(change.num_left_out) + " are in one only" : "") + ". If an interval does not contain 0, the change is more than chance."));
}
