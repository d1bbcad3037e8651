"""What charts and the list of runs save: CSV with every drawn point, and a picture on white."""

import base64
import csv
import io
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.dashboard.recorded import figures, log_step, new_run
from tests.dashboard.serving import Serve, Served, look
from tests.dashboard.test_runs import change_recipe
from turnwise.dashboard.command import open_runs, write_export

FORMULA = '=HYPERLINK("x","y"),\n@z'


PIXELS = """async (encoded) => {
  const bytes = Uint8Array.from(atob(encoded), (each) => each.charCodeAt(0));
  const picture = await createImageBitmap(new Blob([bytes], { type: "image/png" }));
  const { width, height } = picture;
  const drawing = new OffscreenCanvas(width, height).getContext("2d");
  drawing.drawImage(picture, 0, 0);
  const { data } = drawing.getImageData(0, 0, width, height);
  const found = { width, white: 0, blue: 0, darkest: 255 };
  for (let place = 0; place < data.length; place += 4) {
    const [red, green, blue] = data.slice(place, place + 3);
    found.white += (red + green + blue === 765) / width / height;
    found.blue += red === 0x25 && green === 0x63 && blue === 0xeb;
    if (place < 280 * width) found.darkest = Math.min(found.darkest, red, green, blue);
  }
  return found;
}"""
"""Of a picture: its width, the share of white, how many pixels are blue, and the darkest of the title."""


def saved(page: Any, button: str) -> tuple[str, bytes]:
    with page.expect_download() as waiting:
        page.click(button)
    return waiting.value.suggested_filename, Path(waiting.value.path()).read_bytes()


def rows_of(content: bytes) -> list[list[str]]:
    return list(csv.reader(io.StringIO(content.decode(), newline="")))


def test_a_chart_saves_the_points_that_are_drawn(page: Any, served: Served) -> None:
    look(page, served, "overview", runs="run,second", first=1, smooth=0.5)
    page.wait_for_selector("main:not([data-drawn='1']) #chart-success canvas")
    page.click("#chart-success [data-label='second heldout/success'] button")
    name, content = saved(page, "#csv-success")
    heads, *rows = rows_of(content)
    assert (name, heads) == ("success-by-step.csv", ["x", "run", "figure", "value", "low", "high"])
    lines = {(row[1], row[2]) for row in rows}
    smoothed = "success/rate, smoothing 0.5"
    assert lines == {
        ("run", "success/rate"),
        ("run", smoothed),
        ("run", "heldout/success"),
        ("second", "success/rate"),
    }, "hidden lines are not drawn, two points are not smoothed"
    logged = [row for row in rows if row[1:3] == ["run", "success/rate"]]
    assert [float(row[0]) for row in logged] == [1, 2, 3]
    for row in logged:
        assert [float(each) for each in row[3:]] == [figures(int(row[0]))["success/rate"]] * 3
    page.click("#chart-success [data-label='second heldout/success'] button")


def test_texts_of_runs_cannot_become_formulas_or_further_cells(
    page: Any, serve: Serve, tmp_path: Path
) -> None:
    with new_run(tmp_path, "=1+1") as folder:
        log_step(folder, 0)
        folder.log(0, "update", {f"success/{FORMULA}": 0.5})
    change_recipe(folder.path, {"run": {"tags": [FORMULA], "name": "-2"}})
    served = serve(folder.path)
    page.goto(f"{served.url}#/overview")
    page.wait_for_selector("main:not([data-drawn='1']) #chart-families canvas")
    _, content = saved(page, "#csv-families")
    rows = rows_of(content)
    assert {len(row) for row in rows} == {6}
    assert {row[1] for row in rows[1:]} == {"'=1+1"}
    assert any(row[2].startswith("success/=HYPERLINK") for row in rows)
    page.click("#view-runs")
    page.wait_for_selector("#run-table tbody tr")
    heads, row = rows_of(saved(page, "#csv-runs")[1])
    assert len(heads) == len(row)
    assert row[heads.index("run")] == "'=1+1"
    assert row[heads.index("tags")].startswith("'=HYPERLINK")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_chart_saves_its_picture_on_white_also_from_an_exported_file(
    page: Any, run: Path, tmp_path: Path, theme: str
) -> None:
    copied = Path(shutil.copytree(run, tmp_path / "run"))
    shutil.copytree(run.parent / "second", tmp_path / "second")
    file, _ = write_export(open_runs([copied], tmp_path / "cache"), tmp_path / "report.html")
    page.emulate_media(color_scheme=theme)
    page.goto(f"{file.as_uri()}#/health")
    page.wait_for_selector("#chart-ratios-0 canvas")
    pixels = page.context.new_page()
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    for chart in ("ratios-0", "active"):
        name, content = saved(page, f"#png-{chart}")
        picture = pixels.evaluate(PIXELS, base64.b64encode(content).decode())
        assert name == f"{chart}-by-step.png"
        assert picture["width"] == 2 * (640 + 32)
        assert picture["white"] > 0.5
        assert picture["blue"] > 50, "the light theme's blue"
        assert picture["darkest"] < 60, "dark letters in the title"
    pixels.close()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == before
