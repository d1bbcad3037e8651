"""From a point of a curve to the episodes behind it: by click, by Enter and by the readout's links."""

from pathlib import Path

from tests.dashboard.recorded import figures
from turnwise.dashboard.index.index import Index
from turnwise.dashboard.views.series import series

PLACE = """([id, x, y]) => {
  const { plot } = document.getElementById(id), { clientWidth, clientHeight } = plot.over;
  const inside = (at, most) => Math.min(Math.max(at, 3), most - 3);
  return [inside(plot.valToPos(x, "x"), clientWidth), inside(plot.valToPos(y, "y"), clientHeight)];
}"""


STEP = {"run": "run", "source": "train"}
BEHIND = {
    ("success", 2, figures(2)["success/rate"]): {**STEP, "first": "2", "last": "2"},
    ("success", 0, 2 / 6): {"run": "run", "source": "before"},
    ("success", 3, 5 / 6): {"run": "run", "source": "after"},
    ("reward", 1, 0.25): {"run": "run", "source": "step-000002"},
    ("families", 1, figures(1)["success/quotes"]): {
        **STEP,
        "first": "1",
        "last": "1",
        "family": "quotes",
        "success": "0",
    },
}
"""By chart, step and value: the filters of the list that a click opens."""


def test_the_points_of_buckets_are_steps_that_were_recorded(run: Path, tmp_path: Path) -> None:
    index = Index(run, tmp_path)
    index.refresh()
    found = series(index, ["success/rate", "heldout/success"], num_points=2)
    assert found["success/rate"]["steps"] == [1, 3]
    assert found["heldout/success"]["sources"] == ["before", "after"]
