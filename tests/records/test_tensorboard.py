"""TensorBoard with the real library: its own reader reads back what was written."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.records.sample_run import HOSTILE, begin, log_of, resumed, tracked
from turnwise.records.folder import RunFolder

pytestmark = pytest.mark.skipif(
    find_spec("tensorboard") is None, reason="needs tensorboard: pip install 'turnwise[tensorboard]'"
)
TENSORBOARD = {"kind": "tensorboard", "close_seconds": 60}


def read(folder: RunFolder) -> Any:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder.path / "tensorboard"), size_guidance={"tensors": 0, "histograms": 0})
    return events.Reload()


def scalars(events: Any, tag: str) -> list[tuple[int, float]]:
    return [(scalar.step, scalar.value) for scalar in events.Scalars(tag)]


def text(events: Any, tag: str) -> str:
    found: bytes = events.Tensors(tag)[0].tensor_proto.string_val[0]
    return found.decode()


@pytest.mark.filterwarnings("ignore:html5lib's sanitizer is deprecated:DeprecationWarning")
def test_a_run_is_read_back_and_its_episodes_are_never_markup(tmp_path: Path) -> None:
    from tensorboard.plugin_util import markdown_to_safe_html

    folder = tracked(tmp_path, TENSORBOARD, 0, 1, 2)
    assert "lost" not in log_of(folder)
    events = read(folder)
    assert scalars(events, "reward/mean") == [(0, 0.5), (1, 1.5), (2, 2.5)]
    assert [str(value) for _, value in scalars(events, "loss/policy")] == ["0.125", "nan", "0.125"]
    assert scalars(events, "alarm/truncation") == [(1, 1.0)]
    assert scalars(events, "evaluation/after/success/lookups") == [(3, 1.0)]
    assert '"seed": 7' in text(events, "recipe")
    histogram = events.Histograms("histogram/ratio")[0].histogram_value
    assert (list(histogram.bucket), histogram.num) == ([1, 5, 7, 2], 15)
    assert histogram.bucket_limit[:3] == [0.9, 1.0, 1.1]

    shown = text(events, "episodes")
    assert "→ get_quote" in shown
    assert "12 dollars" in shown
    assert all(line.startswith("    ") or line in ("", "---") for line in shown.splitlines())
    page = markdown_to_safe_html(shown)
    assert HOSTILE[:8] not in page
    assert "&lt;script&gt;" in page


def test_a_resumed_run_continues_in_its_folder_without_the_steps_that_were_cut_off(tmp_path: Path) -> None:
    with begin(tmp_path, TENSORBOARD) as folder:
        for step in range(4):
            folder.log(step, "update", {"a": float(step)})
    resumed(folder, 2, 2, 3, 4)
    assert len(list((folder.path / "tensorboard").iterdir())) == 2
    assert scalars(read(folder), "a") == [(0, 0.0), (1, 1.0), (2, 12.0), (3, 13.0), (4, 14.0)]
