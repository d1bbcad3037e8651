// Figures by the question they answer; each a row with its course, which leads to its chart.

import { spark } from "./charts.js";
import { isKnown, make, pct, pct1, plural } from "./dom.js";
import { QUESTIONS } from "./figures.js";
import { moved } from "./place.js";
import { spanOf } from "./panels.js";

const TONES = { fault: "var(--fault)", infra: "var(--infra)" };

// found: the series of the rows' figures; alarms: those of the run. below(question): what stands below its table.
export function vitals(run, found, alarms, below = () => "") {
  const isFired = (row) => row.rule && alarms.groups.some((alarm) => alarm.metric === row.name || alarm.name === row.rule);
  const asks = QUESTIONS.map((question) => ({ ...question, shown: question.rows.filter((row) => found[row.name] && found[row.name].values.some(isKnown)) })).filter((question) => question.shown.length);
  const isNarrow = document.documentElement.clientWidth < 760;
  const one = (question) => {
    const inside = [make("table", { class: "vital" }, make("thead", {}, make("tr", {}, make("th", { scope: "col" }, question.ask), make("th", { scope: "col" }, make("span", { class: "sr" }, "course")), make("th", { class: "num desk opt", scope: "col" }, "first"), make("th", { class: "num", scope: "col" }, "now"), make("th", { class: "num desk opt", scope: "col" }, "limit"))),
      make("tbody", {}, question.shown.map((row) => vitalRow(run, row, found[row.name], isFired(row), isNarrow)))), below(question)];
    if (!isNarrow) return make("div", { class: "question", "data-ask": question.ask }, inside);
    const fired = question.shown.filter(isFired).length;
    return make("details", { class: "fold question", id: "ask " + question.ask, open: fired > 0, "data-ask": question.ask }, make("summary", {}, make("b", {}, question.ask), fired ? make("span", { class: "crit" }, plural(fired, "alarm")) : make("span", { class: "faint" }, question.shown.some((row) => row.rule) ? "no alarm" : plural(question.shown.length, "figure"))), inside);
  };
  const half = Math.ceil(asks.length / 2);
  if (!asks.length) return make("p", { class: "quiet" }, "No figure is logged yet.");
  return make("div", { class: isNarrow ? "" : "half tight", id: "vitals" }, make("div", {}, asks.slice(0, half).map(one)), make("div", {}, asks.slice(half).map(one)));
}

function vitalRow(run, row, line, isFired, isNarrow) {
  const known = line.values.map((value, i) => [line.steps[i], value]).filter(([, value]) => isKnown(value)), [first] = known, last = known[known.length - 1];
  const isOld = run.standing.last_step !== null && last[0] < run.standing.last_step, rule = row.rule && (run.standing.health || {})[row.rule], limit = rule ? rule.threshold : null;
  const sign = rule && /below|at most/.test(rule.wording) ? "≥ " : "≤ ", note = isOld ? "no value since step " + last[0] : row.note;
  const open = () => { location.hash = chartOf(row); };
  return make("tr", { class: "go", "data-name": row.name, title: row.name, onclick: open }, make("th", { scope: "row", class: "what" }, make("a", { class: "to", href: chartOf(row) }, row.words), note ? make("small", {}, note) : ""),
    make("td", {}, spark(line.values, { xs: line.steps, wide: isNarrow ? 92 : 150, colour: isFired ? "var(--crit)" : TONES[row.tone] || "var(--s1)", y: row.y || null, limit, span: spanOf(run) + 1, label: row.words + ", from " + row.say(first[1]) + " to " + row.say(last[1]) + (isFired ? ", an alarm fired" : "") })),
    make("td", { class: "num quiet desk opt", title: String(first[1]) }, row.say(first[1])), make("td", { class: "num val" + (isFired ? " crit" : "") }, isOld ? make("span", { class: "faint", title: last[1] + " at step " + last[0] }, "–") : make("span", { class: "number", title: String(last[1]) }, row.say(last[1]))),
    make("td", { class: "num faint small desk opt" }, limit === null ? "" : sign + (row.say === pct1 ? pct(limit) : row.say(limit))));
}

function chartOf(row) {
  return moved({ chart: row.name }, "health");
}
