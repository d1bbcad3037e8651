"""From a point of a curve to the episodes behind it: by click, by Enter and by the readout's links."""

from pathlib import Path

from turnwise.dashboard.index.index import Index
from turnwise.dashboard.views.series import series


def test_the_points_of_buckets_are_steps_that_were_recorded(run: Path, tmp_path: Path) -> None:
    index = Index(run, tmp_path)
    index.refresh()
    found = series(index, ["success/rate", "heldout/success"], num_points=2)
    assert found["success/rate"]["steps"] == [1, 3]
    assert found["heldout/success"]["sources"] == ["before", "after"]
