"""The index follows the run's files without reading a line twice, and answers what they contain."""

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from tests.dashboard.recorded import (
    TOOLS,
    bad,
    episode,
    figures,
    good,
    hostile,
    learned,
    log_step,
    new_run,
    play_step,
    result,
    task,
    trace_step,
    turn,
)
from turnwise.config import Recipe
from turnwise.dashboard.index.index import Index
from turnwise.dashboard.runs import ListedRun
from turnwise.dashboard.views.conversation import tokens
from turnwise.dashboard.views.episode_list import page
from turnwise.dashboard.views.listing import Filter, choices, of_task
from turnwise.dashboard.views.series import alarms, histogram, last_step, latest, names, series
from turnwise.dashboard.views.token_texts import Pieces
from turnwise.dashboard.views.traffic import traffic
from turnwise.records.folder import RunFolder
from turnwise.records.run_facts import ShownRecipe
from turnwise.rollout.store import StoredEpisode
from turnwise.system.files import regular_files
from turnwise.types import Cause, Reward, StateProbe, Tool, Truth


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[RunFolder]:
    with new_run(tmp_path) as folder:
        yield folder


@pytest.fixture(scope="module")
def recorded(run: Path) -> Index:
    return index_of(run)


def index_of(run: Path) -> Index:
    index = Index(run, run.parent / "cache")
    index.refresh()
    return index


def tasks(index: Index, wanted: Filter) -> list[str]:
    return [row["task"] for row in page(index, wanted)["rows"]]


def test_series_have_the_logged_values(recorded: Index) -> None:
    wanted = ["success/rate", "entropy/mean", "gradient/norm", "groups/zero_variance_fraction", "no/such"]
    found = series(recorded, wanted)
    assert found["success/rate"]["steps"] == [0, 1, 2, 3]
    assert found["success/rate"]["values"] == [figures(step)["success/rate"] for step in range(4)]
    assert found["entropy/mean"]["values"] == [learned(step)["entropy/mean"] for step in range(4)]
    assert found["gradient/norm"]["values"] == [0.5, 0.5, None, 0.5]
    assert found["groups/zero_variance_fraction"]["values"] == [0.125] * 4, "the rollout's, not the update's"
    assert found["no/such"]["steps"] == []
    assert last_step(recorded) == 3
    assert latest(recorded, ["reward/mean"]) == {"reward/mean": figures(3)["reward/mean"]}
    measured = {"heldout/success", "heldout/reward", "validation/reward"}
    assert set(names(recorded)) == figures(0).keys() | learned(0).keys() | measured


def test_many_steps_are_thinned_to_means_with_their_extremes(folder: RunFolder) -> None:
    for step in range(100):
        folder.log(step, "rollout", {"a": float(step)})
    index = index_of(folder.path)
    found = series(index, ["a"], num_points=10)["a"]
    assert found["steps"] == list(range(9, 100, 10))
    assert found["values"][0] == 4.5
    assert (found["lows"][-1], found["highs"][-1]) == (90.0, 99.0)
    assert series(index, ["a"], first=5, last=6)["a"]["values"] == [5.0, 6.0]


def test_alarms_and_histograms_are_at_their_steps(recorded: Index) -> None:
    fired = [(alarm["step"], alarm["name"]) for alarm in alarms(recorded)["alarms"]]
    assert fired == [(2, "not_a_number"), (1, "truncation")]
    ratios = histogram(recorded, "ratio", first=1, last=2)
    assert [column["counts"][25] for column in ratios["columns"]] == [2, 3]
    assert len(ratios["edges"]) == 42


def test_a_growing_file_is_read_from_its_last_position(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_step(folder, 0)
    play_step(folder, 0, [good(task("a"))])
    index = index_of(folder.path)
    read: list[tuple[str, int]] = []
    before = regular_files.lines_from

    def watched(path: Path, offset: int) -> object:
        read.append((path.name, offset))
        return before(path, offset)

    monkeypatch.setattr("turnwise.dashboard.index.index.lines_from", watched)
    assert not index.refresh()
    assert read == []
    sizes = {path.name: path.stat().st_size for path in (folder.metrics, folder.trajectories(0))}
    log_step(folder, 1)
    play_step(folder, 0, [bad(task("a"), 1)])
    assert index.refresh()
    assert sizes.items() <= set(read)
    assert all(offset >= sizes[name] for name, offset in read)
    assert page(index, Filter())["total"] == 2
    # another process starts at the same position
    read.clear()
    Index(folder.path, folder.path.parent / "cache").refresh()
    assert read == []


def test_a_half_written_line_is_read_once_it_is_complete(folder: RunFolder) -> None:
    play_step(folder, 0, [good(task("a"))])
    path = folder.trajectories(0)
    line = path.read_bytes().splitlines(keepends=True)[1]
    with path.open("ab") as file:
        file.write(line[:100])
    index = index_of(folder.path)
    assert page(index, Filter())["total"] == 1
    with path.open("ab") as file:
        file.write(line[100:])
    assert index.refresh()
    assert page(index, Filter())["total"] == 2
    assert choices(index)["num_bad_lines"] == 0


def test_lines_of_unknown_shape_are_counted_and_skipped(folder: RunFolder) -> None:
    play_step(folder, 0, [good(task("a"))])
    log_step(folder, 0)
    lines = [b"{torn", b"[1]", b'{"kind":"other"}', b'{"kind":"trajectory","step":0}', b"[" * 100_000]
    figures = {"step": 10**30, "kind": "rollout", "time": 0.0, "metrics": {}}
    lines.append(json.dumps(figures).encode())  # larger than SQLite's integers
    for path in (folder.trajectories(0), folder.metrics):
        with path.open("ab") as file:
            file.write(b"\n".join(lines) + b"\n")
    play_step(folder, 0, [good(task("b"))])
    log_step(folder, 1)
    index = index_of(folder.path)
    assert page(index, Filter())["total"] == 2
    assert last_step(index) == 1
    assert choices(index)["num_bad_lines"] == 12


def test_steps_cut_by_a_resumed_run_leave_the_index(folder: RunFolder) -> None:
    for step in range(3):
        log_step(folder, step)
        play_step(folder, step, [good(task(f"t{step}"))])
        trace_step(folder, step, [f"t{step}/0.0"])
    index = index_of(folder.path)
    folder.cut(1)
    index.refresh()
    assert last_step(index) == 0
    with index.reading() as connection:
        assert [row["episode"] for row in connection.execute("SELECT * FROM traces")] == ["t0/0.0"]
    assert tasks(index, Filter()) == ["t0"]
    log_step(folder, 1)
    play_step(folder, 1, [bad(task("again"))])
    index.refresh()
    assert last_step(index) == 1
    assert tasks(index, Filter(last=1)) == ["again", "t0"]
    assert traffic(index)["tools"][0]["num_calls"] == 2


def test_a_replaced_or_rewritten_file_is_read_again(folder: RunFolder) -> None:
    play_step(folder, 0, [good(task("aaa"))])
    index = index_of(folder.path)
    path = folder.trajectories(0)
    other = path.with_suffix(".part")
    other.write_bytes(path.read_bytes().replace(b"aaa", b"bbb"))  # of the same length
    os.replace(other, path)
    index.refresh()
    assert tasks(index, Filter()) == ["bbb"]
    os.truncate(path, 0)
    play_step(folder, 0, [good(task("a longer name")), good(task("ccc"))])
    index.refresh()
    assert tasks(index, Filter()) == ["a longer name", "ccc"]


def test_a_lone_surrogate_in_a_name_becomes_a_question_mark(folder: RunFolder) -> None:
    play_step(folder, 0, [good(task("half\ud800", "family\ud800"))])
    index = index_of(folder.path)
    [row] = page(index, Filter())["rows"]
    assert (row["task"], row["family"]) == ("half?", "family?")
    assert choices(index)["num_bad_lines"] == 0


def test_a_broken_index_is_rebuilt(folder: RunFolder) -> None:
    log_step(folder, 0)
    index = index_of(folder.path)
    for file in index.path.parent.iterdir():
        file.write_bytes(b"not a database at all" * 100)
    assert last_step(index_of(folder.path)) == 0


def test_an_index_with_any_damaged_page_is_rebuilt(run: Path, recorded: Index, tmp_path: Path) -> None:
    asks = (names, choices, alarms, last_step, lambda index: page(index, Filter(search="ace"), pieces=None))
    wanted = [ask(recorded) for ask in asks]
    listed = ListedRun("run", run, tmp_path)
    assert listed.refresh(seconds=60)
    sound = listed.index.path.read_bytes()
    for start in range(4096, len(sound), 4096):  # without the first page it would not be a database
        listed.index.path.write_bytes(sound[:start] + b"\xff" * 4096 + sound[start + 4096 :])
        for _ in range(2):  # the first round may rebuild what only the second one finds damaged
            for ask in asks:
                listed.asked(partial(ask, listed.index))
            while listed.refresh(seconds=60):  # on a busy machine the rebuild takes longer than a request may
                pass
        assert [listed.asked(partial(ask, listed.index)) for ask in asks] == wanted
        assert ListedRun("run", run, tmp_path).asked(lambda: last_step(listed.index)) == wanted[3]


def test_an_index_that_was_removed_under_an_open_page_is_rebuilt(folder: RunFolder, tmp_path: Path) -> None:
    log_step(folder, 0)
    listed = ListedRun("run", folder.path, tmp_path / "cache")
    assert last_step(listed.index) == 0
    shutil.rmtree(tmp_path / "cache")
    (tmp_path / "cache").mkdir()
    assert listed.asked(lambda: last_step(listed.index)) == 0
    assert listed.index.problems == []


def test_success_without_an_outcome_part_is_what_the_run_counts(folder: RunFolder) -> None:
    episodes = [good(task("a")), bad(task("a"), 1), hostile(task("a"), 2)]
    play_step(folder, 0, [replace(played, reward=Reward(0.7, {"own:part": 0.7})) for played in episodes])
    rows = page(index_of(folder.path), Filter(), sort="oldest")["rows"]
    assert [row["is_success"] for row in rows] == [1, 0, 0]


NO_PIECES = Pieces(Path("nowhere"), "nothing")


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (Filter(task="bee", source="train"), "first groups that a step learns from"),
        (Filter(source="after"), "not learned from"),
    ],
)
def test_missing_token_figures_have_a_reason(recorded: Index, wanted: Filter, words: str) -> None:
    recipe = ShownRecipe.model_validate(Recipe().model_dump(mode="json"))
    for row in page(recorded, wanted)["rows"]:
        found = tokens(recorded, row["id"], recipe, NO_PIECES)
        assert not found["is_traced"]
        assert words in found["missing"]
        assert {turn["update"] for turn in found["turns"]} == {None}
        is_known = row["source"] == "train"
        assert found["advantage"] == (0.0 if is_known else None), "evaluations have no advantages"


@pytest.mark.parametrize(
    "lie", [{"num_tokens": 7}, {"clip": "."}, {"ratio": [1.0]}, {"old": ["x"] * 8}, {"new": {}}]
)
def test_token_figures_that_do_not_fit_their_episode_are_not_shown(
    folder: RunFolder, lie: dict[str, object]
) -> None:
    play_step(folder, 0, [good(task("a"))])
    trace_step(folder, 0, ["a/0.0"])
    path = folder.tokens(0)
    assert tokens(index_of(folder.path), 1, ShownRecipe(), NO_PIECES)["is_traced"]
    path.write_text(json.dumps({**json.loads(path.read_text()), **lie}) + "\n")
    assert not tokens(index_of(folder.path), 1, ShownRecipe(), NO_PIECES)["is_traced"]


def test_a_failed_reward_is_a_fault_and_not_a_failed_episode(folder: RunFolder) -> None:
    sound = task("a")
    # nobody answered the probe of the server's state, so success is unknown
    probed = replace(sound, truth=Truth(probes=(StateProbe("quote", {}, "51.9"),)))
    unknown = StoredEpisode(episode(probed, [turn(0, "done")], member=1), Reward(0.0, {"own:part": 0.0}))
    play_step(folder, 0, [good(sound), unknown])
    index = index_of(folder.path)
    rows = page(index, Filter(), sort="oldest")["rows"]
    assert [(row["is_success"], row["fault"]) for row in rows] == [(1, "none"), (None, "reward")]
    assert page(index, Filter(is_success=False))["total"] == 0
    assert page(index, Filter(fault="reward"))["total"] == 1
    assert [episode["success"] for episode in of_task(index, "a")] == [1.0], "it counts neither way"


def test_breakers_have_their_last_state_and_the_sum_of_openings(recorded: Index) -> None:
    def breakers(**steps: int) -> dict[str, tuple[object, ...]]:
        keys = ("is_open", "step", "num_openings", "num_steps_open")
        servers = traffic(recorded, **steps)["servers"]
        return {server["server"]: tuple(server[key] for key in keys) for server in servers}

    assert breakers() == {"market": (False, 3, 0.0, 0.0), "slack": (True, 3, 1.0, 2.0)}
    assert breakers(last=1)["slack"] == (False, 1, 0.0, 0.0)
    assert breakers(first=3)["slack"] == (True, 3, 0.0, 1.0)
    [market] = traffic(recorded, source="after")["servers"]
    assert (market["server"], market["is_open"], market["num_calls"]) == ("market", None, 6)


def test_a_tool_that_does_not_exist_belongs_to_no_server(folder: RunFolder) -> None:
    made_up = turn(0, calls=[("quotes", {}, result("no such tool", Cause.UNKNOWN_TOOL))])
    play_step(folder, 0, [StoredEpisode(episode(task("a"), [made_up]), Reward(0.0, {"outcome": 0.0}))])
    found = traffic(index_of(folder.path))
    assert [(tool["tool"], tool["server"]) for tool in found["tools"]] == [("quotes", "")]
    assert found["servers"] == []


def test_traffic_counts_calls_errors_retries_and_percentiles(recorded: Index) -> None:
    found = traffic(recorded, first=0, last=2)
    [quote] = found["tools"]
    counts = [quote[key] for key in ("server", "num_calls", "num_errors", "num_retries")]
    assert counts == ["market", 12, 3, 6]
    assert quote["causes"] == {"ok": 9, "tool_error": 3}
    assert (quote["p50"], quote["p95"], quote["p99"]) == (0.25, 1.5, 1.5)
    assert found["tool_seconds"] == pytest.approx(9 * 0.25 + 3 * 1.5)
    assert found["waiting_share"] == pytest.approx(6.75 / (6.75 + 12 * 1.0))
    assert [tool["tool"] for tool in traffic(recorded, first=3)["tools"]] == ["quote", "send"]
    assert traffic(recorded, source="after")["tools"][0]["num_calls"] == 6


def test_a_servers_percentiles_are_over_the_calls_of_all_its_tools(folder: RunFolder) -> None:
    news = Tool("news", "News.", {"type": "object"}, "market", "news")

    def calls(tool: str, times: list[float]) -> list[StoredEpisode]:
        turns = [turn(0, calls=[(tool, {}, result(seconds=time))]) for time in times]
        episodes = [episode(task(tool), [turn], member=number) for number, turn in enumerate(turns)]
        offered = [replace(episode, tools=(*TOOLS, news)) for episode in episodes]
        return [StoredEpisode(episode, Reward(1.0, {"outcome": 1.0})) for episode in offered]

    def servers(**steps: int) -> list[list[object]]:
        keys = ("server", "num_calls", "p50", "p95", "p99")
        return [[server[key] for key in keys] for server in traffic(index, **steps)["servers"]]

    play_step(folder, 0, [*calls("quote", [0.1] * 9 + [3.0]), *calls("news", [1.0] * 10)])
    play_step(folder, 1, calls("news", [9.0]))
    folder.log(2, "rollout", {"breaker/open/idle": 0.0, "breaker/openings/idle": 0.0})
    index = index_of(folder.path)
    assert servers(last=0) == [["market", 20, 1.0, 1.0, 3.0]]
    assert [tool["p50"] for tool in traffic(index, last=0)["tools"]] == [1.0, 0.1]
    assert servers(first=1, last=1) == [["market", 1, 9.0, 9.0, 9.0]]
    assert servers(first=2) == [["idle", 0, None, None, None]]
