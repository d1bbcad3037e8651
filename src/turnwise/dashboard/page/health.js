// Whether a run is healthy: what fired first beside success, what to do, the machine, and the five questions with their charts.

import { ask } from "./api.js";
import { rangeOf } from "./axes.js";
import { lines, opener } from "./charts.js";
import { answer, brief, capital, cells, isKnown, lazy, make, num, number, part, pct, percent, plural, shortPath, table } from "./dom.js";
import { HEALTH, isShare, OVERVIEW, TOOLS, VITALS } from "./figures.js";
import { heat } from "./heat.js";
import { growth } from "./live.js";
import { machineOf } from "./machine.js";
import { meansOf, panelsOf, spanOf, viewMenu } from "./panels.js";
import { moved } from "./place.js";
import { vitals } from "./vitals.js";

export async function health([run], settings) {
  const range = rangeOf(settings), asked = { run: run.name }, names = await ask("names", asked);
  const wanted = [...new Set(["success/rate", ...VITALS.map((row) => row.name)])].filter((name) => names.includes(name));
  const [all, alarms, ratios, machine] = await Promise.all([ask("alarms", asked), ask("alarms", { ...asked, ...range }), ask("histogram", { ...asked, name: "ratio", ...range }), ask("machine", asked)]);
  const groups = [...all.groups].sort((a, b) => a.first - b.first), first = groups.find((group) => group.metric && names.includes(group.metric));
  if (first && !wanted.includes(first.metric)) wanted.push(first.metric);
  const found = wanted.length ? await ask("series", { ...asked, name: wanted }) : {};
  const events = alarms.alarms.map((alarm) => ({ x: alarm.x === undefined ? alarm.step : alarm.x })).filter((event) => isKnown(event.x)), steps = [...new Set(events.map((event) => event.x))].slice(0, 60).map((x) => ({ x }));
  const rules = run.standing.health || {}, limits = (panel) => panel.rule && rules[panel.rule] ? [{ at: rules[panel.rule].threshold, words: "alarm " + rules[panel.rule].wording + " " + num(rules[panel.rule].threshold) }] : [];
  const picture = ratios.columns.length ? heat({ ...ratios, bounds: run.standing.clip, run: run.name }) : "";
  const asked_ = settings.chart ? await chartPart(settings.chart, run, settings, limits) : "";
  const below = (question) => figuresOf(question, run, settings, { limits, alarms: steps, picture, alarmed: all.groups });
  return make("div", {}, answer(all.heading, { lead: leadOfHealth(groups, all), tone: "" }), first ? fired(run, found, first, groups, limits) : "", part("What the machine does", machine.step === null ? "before the first step" : "as of step " + machine.step, machineOf(machine)),
    make("section", { id: "alarms" }, make("div", { class: "head" }, make("h2", {}, groups.length ? "What to do" : "No alarm has fired"), groups.length ? make("p", {}, "the first alarm first: later ones often follow from it") : ""), all.note ? make("p", { class: "fault" }, alarms.note) : "",
      make("div", { class: "half" }, haltedFirst(groups).map((group) => alarmOf(run, group, alarms.alarms)))),
    part("The five questions", "a red course has fired an alarm; figures and charts are below their question", make("div", { class: "filters" }, viewMenu(settings)), vitals(run, found, all, below)), asked_);
}

function leadOfHealth(groups, { num_groups: num_ }) {
  if (!groups.length) return "";
  const [first] = groups, shown = first.is_share ? pct : num;
  return [make("b", {}, words_(first.metric || first.name) + ": " + shown(first.value)), ", limit " + shown(first.threshold) + "; it fired " + (first.num === 1 ? "once" : first.num + " times") + (num_ > 1 ? ", and " + plural(num_ - 1, "other kind") + " of alarm with it." : ".")];
}

function words_(metric) {
  const row = VITALS.find((each) => each.name === metric);
  return capital(row ? row.words : metric.replaceAll("_", " "));
}

// Success, and beside it the figure that fired first with its limit.
function fired(run, found, first, groups, limits) {
  const success = found["success/rate"], line = found[first.metric], span = spanOf(run), say = isShare(first.metric) ? pct : num;
  const events = groups.slice(0, 8).map((group) => ({ x: group.first, words: group.name.replaceAll("_", " ") + (group.num > 1 ? ", " + group.num + "×" : "") }));
  const chart = (key, title, note, name, series, more) => {
    const means = more.y ? meansOf(series.values, "") : null, drawn = [{ run: run.name, name, label: title.toLowerCase(), labelled: (more.say || num)((means || series.values).filter(isKnown).pop()), xs: series.steps, ...series, means, colour: more.colour, width: 2 }];
    return lines({ key, title, note, drawn, height: 230, right: 70, span, open: opener(drawn), ...more });
  };
  return make("section", { class: "half", id: "fired" }, success ? chart("fired-success", "Success", "training", "success/rate", success, { y: [0, 1], say: pct, events, colour: "var(--s1)" }) : "",
    line && line.values.some(isKnown) ? chart("fired-first", words_(first.metric), "the figure that fired first", first.metric, line, { say, colour: "var(--crit)", limits: [{ at: first.threshold, words: "limit " + say(first.threshold) }] }) : "");
}

function haltedFirst(groups) {
  return [...groups.filter((group) => group.level === "halt"), ...groups.filter((group) => group.level !== "halt")];
}

function alarmOf(run, group, alarms) {
  const toStep = (step, kind) => make("a", { class: "link " + (kind || ""), href: moved({ first: step, last: step, run: run.name, source: "train", sort: "task" }, "trajectories") }, "step " + step);
  const shown = group.is_share ? percent : number, own = alarms.filter((alarm) => alarm.name === group.name && alarm.level === group.level);
  const rows = () => own.map((alarm) => make("tr", { "data-step": alarm.step }, cells(toStep(alarm.step), shown(alarm.value), shown(alarm.threshold), alarm.message)));
  return make("article", { class: "notice alarm", "data-alarm": brief(group.name), "data-key": "alarm " + brief(group.name) + group.level }, make("div", {}, make("h3", {}, capital(brief(group.meaning || group.said || group.name, 400).replace(/\.$/, "")), group.level === "halt" ? make("span", { class: "tag crit" }, "stopped the run") : ""),
    make("p", { class: "quiet small" }, words_(group.metric || group.name) + " ", shown(group.value), ", limit ", shown(group.threshold), "; ", group.num === 1 ? ["once, at ", toStep(group.first, "first")] : [group.num + " times, from ", toStep(group.first, "first"), " to ", toStep(group.last, "last")], "."),
    group.remedies.length ? make("ol", {}, group.remedies.map((said, i) => make("li", {}, make("span", { class: "faint" }, i + 1 + "  "), said))) : "",
    Object.keys(group.keys).length ? make("p", {}, Object.entries(group.keys).map(([key, value]) => [make("span", { class: "tag mono", title: value }, key + " = " + (value.includes("/") ? shortPath(value) : brief(value, 60))), " "])) : "",
    lazy("fired " + group.name + " " + group.level, own.length < group.num ? "the newest " + own.length : "each time", () => table(["step", "value", "limit", "message"], rows()))));
}

// The charts of a question, open if an alarm is of one of its figures.
function figuresOf(question, run, settings, { limits, alarms, picture, alarmed }) {
  const panels = HEALTH.filter((panel) => question.panels.includes(panel.key)), isHeat = question.panels.includes("ratio") && picture, num_ = panels.length + (isHeat ? 1 : 0);
  if (!num_) return "";
  const isOpen = alarmed.some((alarm) => panels.some((panel) => panel.rule === alarm.name));
  return lazy("charts " + question.ask, plural(num_, "chart"), async () => [await panelsOf(panels, [run], settings, { limits, alarms, before: isHeat ? [picture] : [] })], { isOpen });
}

// The chart of one figure, which a row of a table asked for.
async function chartPart(name, run, settings, limits) {
  const known = [...HEALTH, ...OVERVIEW, ...TOOLS].find((panel) => panel.names.includes(name)), row = VITALS.find((each) => each.name === name);
  const panel = { ...(known || { note: "As logged under this name." }), rule: (known && known.rule) || (row && row.rule), key: "asked", title: row ? capital(row.words) : name, names: [name] };
  const section = make("section", { id: "asked" }, await panelsOf([panel], [run], settings, { limits }), make("p", {}, make("a", { class: "link", href: moved({ chart: "" }) }, "close this chart")));
  if (!growth.is) setTimeout(() => { const shown = document.getElementById("asked"); if (shown) shown.scrollIntoView({ block: "center" }); });
  return section;
}
