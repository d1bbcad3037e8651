// The first view: how the runs are doing, figure by figure.

import { ask } from "./api.js";
import { badge, make, number, percent, seconds } from "./dom.js";
import { OVERVIEW } from "./figures.js";
import { panelsOf, settingsOf } from "./panels.js";
import { go, moved } from "./place.js";

const MAX_PROBLEMS = 20;

export async function overview(runs, settings) {
  const panels = [...OVERVIEW];
  const extra = (settings.extra || "").split(",").filter(Boolean);
  for (const name of extra) panels.unshift({ key: "extra-" + name.replaceAll("/", "-"), title: name, names: [name], note: "As logged under this name." });
  const [charts, names] = await Promise.all([panelsOf(panels, runs, settings), ask("names", { run: runs[0].name })]);
  return make("section", {}, make("h2", {}, "Overview"), make("div", { class: "cards" }, runs.map(card)), settingsOf(settings), charts, anyFigure(names, extra));
}

function card({ name, standing, colour }) {
  const done = standing.last_step === null ? 0 : standing.last_step + 1;
  const held = standing.heldout || {};
  const fact = (label, value, id) => make("div", { class: "fact", "data-fact": id }, make("dt", {}, label), make("dd", {}, value));
  return make("article", { class: "card", "data-run": name },
    make("h3", { class: "key c" + (1 + colour % 8) }, name), make("p", { class: "note" }, [standing.state, standing.model, standing.algorithm].filter(Boolean).join(" · ")),
    make("dl", {},
      fact("steps", [number(done), standing.num_steps ? [" of ", number(standing.num_steps)] : ""], "steps"),
      fact("success, last step", percent(standing.latest["success/rate"]), "success"),
      fact("reward, last step", number(standing.latest["reward/mean"]), "reward"),
      held.before !== null && held.before !== undefined ? fact("held-out success", [percent(held.before), " → ", percent(held.after)], "heldout") : "",
      standing.seconds ? fact("took", seconds(standing.seconds), "seconds") : ""
    ), ended(standing), problems(standing));
}

// Why a run is no longer running, unless it is because it has finished.
function ended({ name, state, reason }) {
  if (!reason) return "";
  const isBad = ["crashed", "died", "halted", "damaged"].includes(state);
  const more = state === "crashed" ? make("p", { class: "note" }, make("a", { href: moved({ run: name }, "log") }, "training.log"), " has the traceback.") : "";
  return make("div", { class: "ended", "data-state": state },
    badge(state, isBad ? "bad" : "warn"), make("pre", { class: "text" }, reason), more);
}

// Files of the run's folder that cannot be used, each with the reason.
function problems({ problems: found }) {
  if (!found || !found.length) return "";
  return make("div", { class: "ended", "data-problems": found.length }, badge("damaged files", "bad"),
    make("pre", { class: "text" }, found.slice(0, MAX_PROBLEMS).join("\n")),
    found.length > MAX_PROBLEMS ? make("p", { class: "note" }, number(found.length - MAX_PROBLEMS) + " more") : "");
}

function anyFigure(names, extra) {
  const input = make("input", { id: "any", list: "names", size: 30, placeholder: "any other figure by name" });
  const add = () => names.includes(input.value) && go({ extra: [...extra, input.value].join(",") });
  return make("form", { class: "settings", onsubmit: (event) => { event.preventDefault(); add(); } },
    make("label", {}, "draw also ", input), make("datalist", { id: "names" }, names.map((name) => make("option", { value: name }, name))),
    make("button", { type: "submit" }, "draw"));
}
