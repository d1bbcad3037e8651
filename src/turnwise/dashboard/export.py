"""Write runs and the page into one HTML file that needs no server."""

import base64
import hashlib
import itertools
import json
import logging
import re
from functools import partial
from typing import Any

from turnwise.dashboard.page_script import PAGE, bundle, stylesheet
from turnwise.dashboard.runs import ListedRun, Runs
from turnwise.dashboard.server import OF_DAMAGED_FILES, as_json
from turnwise.dashboard.standing import compare, standing
from turnwise.dashboard.views import conversation, episode_list, evaluations, groups, listing, series
from turnwise.dashboard.views.alarm_list import listed_alarms
from turnwise.dashboard.views.machine import machine
from turnwise.dashboard.views.traffic import traffic

logger = logging.getLogger(__name__)

NUM_EPISODES = 200
"""The most episodes exported per run: failures in evaluations, then the newest of training, then failures."""

NUM_PAIRED = 8
"""The most runs whose held-out evaluations are compared with each other."""

MAX_BYTES = 8_000_000
"""The most bytes of episodes per run, so that the file stays small enough to send."""

_FOLDERS = re.compile(r'(?<![\w.:/])/(?:[^/"\n]+/)+')
"""The folders of an absolute path; not the path of a URL."""


def export(runs: Runs) -> bytes:
    """The page with the data of all runs in one HTML file.

    It loads nothing over the network, and its Content-Security-Policy allows only its own script.
    """
    chosen = list(runs)
    listed = runs.listed()
    folder_names = {run.name: run.folder.name for run in chosen}
    data = as_json(
        {
            "runs": {**listed, "runs": [_without_paths(row, folder_names) for row in listed["runs"]]},
            "compared": compare(chosen[0], chosen[1:])["heading"] if 1 < len(chosen) <= NUM_PAIRED else "",
            "answers": {
                run.name: {**run.asked(partial(_answers, run)), "paired": _paired(run, chosen)}
                for run in chosen
            },
        }
    ).decode()
    # JSON escapes of the same characters, so that no text can close the <script> element
    data = data.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    script, style = bundle(), stylesheet(has_fonts=True)
    assert not re.search("</script|<!--", script, re.IGNORECASE), "would end the <script> element early"
    assert "</style" not in style.lower()
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; "
        "img-src data: blob:; font-src data:; base-uri 'none'"
    )
    page = (PAGE / "index.html").read_text("utf-8")
    page = re.sub(r'<link rel="icon"[^>]*>\n', "", page)
    meta = f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    page = page.replace('<meta charset="utf-8">', f'<meta charset="utf-8">\n{meta}')
    page = page.replace('<link rel="stylesheet" href="style.css">', f"<style>{style}</style>")
    page = page.replace('<script src="main.js" type="module"></script>\n', "")
    written = f'<script type="application/json" id="recorded">{data}</script>\n'
    return page.replace("</body>", f"{written}<script>{script}</script>\n</body>").encode()


def _without_paths(row: dict[str, Any], folder_names: dict[str, str]) -> dict[str, Any]:
    """The run's row without the folders of this machine."""
    differs = {key: _FOLDERS.sub("…/", value) for key, value in row["differs"].items()}
    return row | {"folder": folder_names[row["name"]], "differs": differs}


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _answers(run: ListedRun) -> dict[str, Any]:
    """The API answers by path, which the page's recorded.js reads instead of the server."""
    index = run.index
    names = series.names(index)
    reports = evaluations.evaluations(run.folder)
    whole = [report["name"] for report in reports if "error" not in report]
    choices = listing.choices(index)
    lines, alarms = series.series(index, names), listed_alarms(run)
    steps = {step for line in lines.values() for step in line["steps"]}
    steps |= {alarm["step"] for alarm in alarms["alarms"]}
    return {
        "standing": standing(run) | {"folder": run.folder.name},
        "names": names,
        "series": lines,
        "axes": {axis: _places(run, axis, steps) for axis in series.AXES if axis != "step"},
        "histogram": series.histogram(index, "ratio"),
        "alarms": alarms,
        "machine": machine(index) | {"disk": None},
        "choices": choices,
        "kinds": groups.kinds(index),
        "tools": {choice["value"]: traffic(index, source=choice["value"]) for choice in choices["source"]},
        "evaluations": reports,
        "comparison": {
            f"{before} {after}": evaluations.comparison(run.folder, before, after)
            for before, after in _pairs(whole)
        },
        **_episodes(run),
    }


def _places(run: ListedRun, axis: str, steps: set[int]) -> dict[int, float]:
    return {step: x for step, x in series.places(run.index, axis).items() if step in steps}


def _paired(run: ListedRun, chosen: list[ListedRun]) -> dict[str, Any]:
    """The comparisons with the other runs, by their names; empty if there are many runs."""
    others = [other for other in chosen if other is not run] if len(chosen) <= NUM_PAIRED else []
    return {other.name: evaluations.paired(run.folder, other.folder) for other in others}


def _pairs(names: list[str]) -> list[tuple[str, str]]:
    """All pairs of up to 4 evaluations; of more, only the pairs with the first one."""
    pairs = list(itertools.combinations(names, 2))
    return pairs if len(names) <= 4 else [pair for pair in pairs if pair[0] == names[0]]


def _episodes(run: ListedRun) -> dict[str, Any]:
    """As many episodes as fit; their groups contain only exported episodes."""
    index, pieces = run.index, run.pieces
    failures = listing.Filter(is_success=False)
    sources = [choice["value"] for choice in listing.choices(index)["source"] if choice["value"] != "train"]
    rows: dict[int, dict[str, Any]] = {}
    for wanted in (*(listing.Filter(source=source, is_success=False) for source in sources), None, failures):
        listed = episode_list.page(index, wanted or listing.Filter(source="train"), limit=NUM_EPISODES // 2)
        rows |= {row["id"]: row for row in listed["rows"]}
    kept: dict[str, Any] = {"rows": [], "trajectory": {}, "group": {}, "tokens": {}}
    num_bytes = 0
    for number, row in list(rows.items())[:NUM_EPISODES]:
        try:
            whole = conversation.conversation(index, number, pieces)
            tokens = conversation.tokens(index, number, run.recipe, pieces)
            size = len(json.dumps(whole)) + len(json.dumps(tokens))
        except (LookupError, ValueError, *OF_DAMAGED_FILES) as error:
            logger.warning("%s: episode %d is left out: %s", run.name, number, type(error).__name__)
            continue
        if num_bytes + size > MAX_BYTES:  # a smaller one may still fit
            continue
        num_bytes += size
        kept["rows"].append({**row, "calls": _calls(whole)})
        kept["trajectory"][number] = whole
        kept["tokens"][number] = tokens
    present = kept["trajectory"].keys()
    for number, whole in kept["trajectory"].items():
        whole["group"] = [member for member in whole["group"] if member["id"] in present]
        whole["elsewhere"] = [episode for episode in whole["elsewhere"] if episode["id"] in present]
        if whole["group"][0]["id"] == number:
            members = conversation.side_by_side(index, number, run.recipe, pieces)
            kept["group"][number] = members | {
                key: [each for each in members[key] if each["id"] in present]
                for key in ("members", "elsewhere")
            }
    return kept


def _calls(whole: dict[str, Any]) -> list[tuple[str, str]]:
    """The tools that an episode called, each with how its calls ended."""
    calls = [call for turn in whole["turns"] for call in turn["calls"] if call["result"]]
    return sorted({(call["name"], call["result"]["cause"]) for call in calls})
