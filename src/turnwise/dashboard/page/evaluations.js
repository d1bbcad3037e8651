// Success on held-out tasks, by family and difficulty, and what changed.

import { ask } from "./api.js";
import { answer, brief, cells, draw, isKnown, make, num, number, options, part, pct, pct1, percent, plural, points, seconds, table, words } from "./dom.js";
import { go, moved } from "./place.js";
import { nameOf } from "./source.js";

const FEW_TASKS = 10; // with fewer tasks an interval is so wide that a change says little

export async function evaluations([run], settings) {
  const found = await ask("evaluations", { run: run.name }), whole_ = found.filter((each) => !each.error);
  if (!whole_.length) return make("div", {}, answer("No evaluation is finished yet.", { lead: "Held-out tasks are played before the first step and after the last one." }), found.length ? listOf(found, run) : make("p", { id: "evaluations" }));
  const before = whole_.find((each) => each.name === settings.before) || whole_[0], after = whole_.find((each) => each.name === settings.after) || whole_[whole_.length - 1];
  const change = before === after ? null : await ask("comparison", { run: run.name, before: before.name, after: after.name }).catch((error) => ({ all: null, families: {}, worse: [], error: error.message }));
  const paired = (label) => change && change.families[label || "-"], families = rowsOfChange("family", "by_family", before, after, run, paired);
  const all = { label: "all", estimates: sidesOfChange(before, after).map((side) => side.all.success), num: after.all.num_tasks, change: change && change.all, failing: { source: after.name, success: "0" }, earlier: { source: before.name } };
  const heading = change ? change.heading || change.error : capitalName(nameOf(after.name)) + ": " + pct(after.all.success.value) + " of " + plural(after.all.num_tasks, "task") + ".";
  return make("div", {}, answer(heading, { lead: leadOfChange(change, families) }), make("section", {}, pair(whole_, before, after), change && !change.all ? make("p", { class: "fault" }, change.error || "The two have no task in common.") : "",
    make("div", { id: "change" }, make("div", { class: "head" }, make("h2", {}, change ? "What changed: " + nameOf(before.name) + " → " + nameOf(after.name) : "Success by family: " + nameOf(after.name)), make("p", {}, "a dot is the share of tries that succeeded, its line the 95% interval" + (change ? "; the largest loss is at the top" : "") + (families.some((row) => row.isFew) ? "; hollow: fewer than " + FEW_TASKS + " tasks" : ""))), tableOfChange("family", [all, ...families], before, after, run))),
    breakdownBy("difficulty", "by_difficulty", before, after, run), breakdownBy("message", "by_message", before, after, run), worseOf(change, before, after, run), part("All evaluations", "success with the interval that holds the true rate at 95%; pass@k: the chance that at least one of k tries is right", listOf(found, run)));
}

function capitalName(name) {
  return name.charAt(0).toUpperCase() + name.slice(1);
}

function interval(estimate) {
  if (!estimate) return "–";
  const bounds = isKnown(estimate.low) ? make("small", { class: "faint" }, " " + pct(estimate.low) + " to " + pct(estimate.high)) : "";
  return make("span", { title: isKnown(estimate.low) ? estimate.value + " [" + estimate.low + ", " + estimate.high + "]" : String(estimate.value) }, pct(estimate.value), bounds);
}

function listOf(found, run) {
  const rows = found.map((each) => each.error ? make("tr", {}, cells(nameOf(each.name), each.error)) : make("tr", { "data-name": each.name }, cells(
    nameOf(each.name), interval(each.all.success), number(each.all.num_tasks), number(each.all.num_episodes), Object.entries(each.all.pass_at_k).map(([k, value], place) => [place ? ", " : "", "@" + k + " ", percent(value)]),
    num(each.all.turns.value), num(each.all.tokens.value), pct1(each.all.tool_error_rate), pct1(each.all.format_error_rate), seconds(each.seconds),
    make("a", { class: "link", href: moved({ run: run.name, source: each.name, success: "0", list: "tries" }, "trajectories") }, "failures"))));
  return table(["evaluation", "success", { words: "tasks", kind: "num" }, { words: "tries", kind: "num" }, "pass@k", { words: "turns", kind: "num" }, { words: "tokens", kind: "num" }, { words: "tool errors", kind: "num" }, { words: "format errors", kind: "num" }, { words: "took", kind: "num" }, ""], rows, { id: "evaluations" });
}

function pair(list, before, after) {
  const pick = (name, chosen) => make("label", {}, name + " ", make("select", { id: name, onchange: (event) => go({ [name]: event.target.value }) }, options(list.map((each) => [each.name, nameOf(each.name)]), chosen.name)));
  return make("p", { class: "filters" }, pick("before", before), pick("after", after));
}

// What the sentence rests on, and which families got worse.
function leadOfChange(change, rows) {
  if (!change || !change.all) return "";
  const { value, low, high } = change.all, worse = rows.filter((row) => row.change && row.change.value < 0).map((row) => words(row.label) + " (" + plural(row.num, "task") + ")");
  return [make("b", {}, points(value) + " points"), isKnown(low) ? " (95% interval " + points(low) + " to " + points(high) + ")" : "", " over " + plural(change.all.num_tasks, "task") + ". ", worse.length ? "Worse: " + worse.slice(0, 5).join(", ") + (worse.length > 5 ? " and " + (worse.length - 5) + " more" : "") + "." : "No family is worse."];
}

function breakdownBy(word, key, before, after, run) {
  const rows = rowsOfChange(word, key, before, after, run, () => null);
  return rows.length ? part("Success by " + word, "", make("div", { id: "by-" + word }, tableOfChange(word, rows, before, after, run))) : "";
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

function tableOfChange(word, rows, before, after, run) {
  const isPair = before !== after, shares = isPair ? [{ words: nameOf(before.name), kind: "num" }, { words: nameOf(after.name), kind: "num" }, { words: "change", kind: "num" }] : [{ words: nameOf(after.name), kind: "num" }];
  return table([word, { words: "tasks", kind: "num" }, { words: "0 to 100%", kind: "" }, ...shares, ...(isPair ? ["95%"] : []), "tries"], rows.map((row) => rowOfChange(row, isPair, run)));
}

// Both sides on one line from 0 to 100%, each with its interval; hollow if it rests on few tasks.
function dotsOf({ label, estimates, isFew }) {
  const wide = 240, high = 26, X = (x) => 6 + x * (wide - 12), said = estimates.map((each) => each ? pct(each.value) : "not measured").join(", then ");
  const svg = draw("svg", { class: "spark" + (isFew ? " chance" : ""), viewBox: "0 0 " + wide + " " + high, width: wide, height: high, role: "img", "aria-label": words(label) + ": " + said });
  for (const t of [0, 0.25, 0.5, 0.75, 1]) svg.append(draw("line", { class: "rule", x1: Math.round(X(t)), x2: Math.round(X(t)), y1: 0, y2: high }));
  const [one, other] = estimates.length > 1 ? estimates : [null, estimates[0]];
  if (one && other) svg.append(draw("line", { class: "lead", x1: X(one.value), x2: X(other.value), y1: 8, y2: 18 }));
  for (const [each, y, kind] of [[one, 8, "open"], [other, one ? 18 : 13, isFew ? "open" : "held"]]) if (each) svg.append(isKnown(each.low) ? draw("line", { class: "whisker" + (kind === "open" ? " thin" : ""), x1: X(each.low), x2: X(each.high), y1: y, y2: y }) : draw("g"), draw("circle", { class: kind, cx: X(each.value), cy: y, r: 4 }));
  return svg;
}

function rowOfChange(row, isPair, run) {
  const toEpisodes = (which, said, kind) => make("a", { class: "link " + kind, href: moved({ run: run.name, list: "tries", ...which }, "trajectories") }, said);
  const last = row.estimates[row.estimates.length - 1], { change } = row;
  return make("tr", { "data-label": brief(row.label), class: row.isFew ? "few" : null }, cells(make("b", {}, words(row.label)), [number(row.num), row.isFew ? " (few)" : ""], dotsOf(row), ...row.estimates.map(interval),
    ...(isPair ? [make("b", { class: change && change.value < 0 ? "fault" : null, title: change ? String(change.value) : "" }, change ? points(change.value) : "–"), change && isKnown(change.low) ? points(change.low) + " to " + points(change.high) : "–"] : []),
    [last && last.value < 1 ? toEpisodes(row.failing, "failures", "failing") : "none failed", isPair ? [" · ", toEpisodes(row.earlier, "the same tasks before", "earlier")] : ""]));
}

// The tasks whose success fell, the largest fall first.
function worseOf(change, before, after, run) {
  if (!change || !change.all) return "";
  const toTask = (task, source, words) => make("a", { class: "link", href: moved({ run: run.name, task, source, list: "tries" }, "trajectories") }, words);
  const rows = change.worse.map((each) => make("tr", { "data-task": brief(each.task) }, cells(brief(each.task, 80), brief(each.family, 40), percent(each.before), percent(each.after),
    [toTask(each.task, after.name, "after"), " · ", toTask(each.task, before.name, "before")])));
  return part("Tasks that got worse", "", make("div", { id: "worse" }, rows.length ? table(["task", "family", nameOf(before.name), nameOf(after.name), "episodes"], rows) : make("p", {}, "None of the tasks in both."),
    change.num_worse > rows.length ? make("p", { class: "note" }, "The " + rows.length + " largest falls of " + change.num_worse + ".") : "",
    make("p", { class: "note" }, "Changes are computed task by task over the " + change.num_tasks + " tasks in both" + (change.num_left_out ? "; " + change.num_left_out + " are in one only" : "") + ". If an interval does not contain 0, the change is more than chance.")));
}
