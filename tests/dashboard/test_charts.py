"""Charts in a real browser: what is drawn, what the readout says, hover, zoom, smoothing and theme."""

from typing import Any

import pytest

from tests.dashboard.recorded import figures, learned
from tests.dashboard.serving import VIEWS, Served, look, pixel, readout, texts, wait_for_steps

BLUE, ORANGE, DARK_BLUE = "#2563eb", "#c2410c", "#6ea8fe"


def look_steadily(page: Any, served: Served, view: str, **settings: object) -> None:
    """Open a view and wait for the redraw that follows the first event, so that no other one comes."""
    look(page, served, view, **settings)
    page.wait_for_selector("main:not([data-drawn='1']) .chart canvas")


def test_the_readout_says_what_was_logged_at_the_step_of_pointer_or_arrow_keys(
    page: Any, served: Served
) -> None:
    look_steadily(page, served, "overview")
    assert readout(page, "success") == {
        "success/rate": str(figures(3)["success/rate"]),
        "heldout/success": str(5 / 6),
    }
    assert readout(page, "entropy") == {"entropy/mean": str(learned(3)["entropy/mean"])}
    assert set(readout(page, "time")) == {"time/rollout_seconds", "time/update_seconds"}
    page.focus("#chart-success")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    assert readout(page, "success")["success/rate"] == str(figures(2)["success/rate"])
    page.hover("#chart-reward .u-over", position={"x": 9, "y": 60})
    assert readout(page, "reward")["reward/mean"] == str(figures(0)["reward/mean"])
    assert float(readout(page, "reward")["heldout/reward"]) == pytest.approx(2 / 6)
    assert float(readout(page, "reward")["validation/reward"]) == pytest.approx(1 / 4), (
        "of the only validation"
    )
    assert readout(page, "entropy") == {"entropy/mean": "0.9"}, "all charts show the hovered step"
    page.hover("h2")
    assert readout(page, "entropy") == {"entropy/mean": str(learned(3)["entropy/mean"])}


def test_before_and_after_training_are_two_points_without_a_line(page: Any, served: Served) -> None:
    look_steadily(page, served, "overview")
    green = [pixel(page, "success", step, value) for step, value in ((0, 2 / 6), (3, 5 / 6))]
    assert green[0] == green[1] != ""
    between = [pixel(page, "success", step, 2 / 6 + step / 6) for step in (0.5, 1.0, 1.5, 2.0, 2.5)]
    assert green[0] not in between


def test_every_chart_has_a_caption_and_missing_figures_are_named(page: Any, served: Served) -> None:
    [row] = served.ask("trajectories", task="evil")["rows"]
    least = {"overview": 12, "health": 6, "tools": 4, "evaluations": 2, "trajectory": 1}
    for view, num_charts in least.items():
        look(page, served, view, **({"id": row["id"]} if view == "trajectory" else {}))
        page.wait_for_selector("main svg, main canvas")
        notes = texts(page, "figure .note:first-of-type, figure figcaption.note")
        assert len(notes) >= num_charts
        assert all(20 < len(note) < 140 for note in notes)
        assert len(page.query_selector_all("main svg, main canvas")) == len(notes)
        if view == "overview":
            assert "Value loss" in page.inner_text("main > section > div > p.note")
            assert page.query_selector("#chart-value") is None


def test_dragging_zooms_all_charts_and_a_double_click_shows_all_steps(page: Any, served: Served) -> None:
    look_steadily(page, served, "overview")
    box = page.query_selector("#chart-success .u-over").bounding_box()
    page.mouse.move(box["x"] + 0.2 * box["width"], box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.8 * box["width"], box["y"] + 60, steps=3)
    page.mouse.up()
    wait_for_steps(page, "entropy", [1, 2])
    assert (page.input_value("#first"), page.input_value("#last")) == ("1", "2")
    page.dblclick("#chart-entropy .u-over")
    wait_for_steps(page, "entropy", [0, 1, 2, 3])
    page.fill("#last", "1")
    page.press("#last", "Enter")
    wait_for_steps(page, "success", [0, 1])


def test_smoothing_draws_the_mean_over_the_values_and_log_scale_needs_positive_values(
    page: Any, served: Served
) -> None:
    look_steadily(page, served, "overview", smooth=0.5)
    # 0.5, 0.51, 0.52, 0.53 with weights 1/8, 1/4, 1/2, 1 over their sum
    mean = (0.5 / 8 + 0.51 / 4 + 0.52 / 2 + 0.53) / (1 / 8 + 1 / 4 + 1 / 2 + 1)
    numbers = page.query_selector_all("#chart-success .readout .number")
    assert float(numbers[1].get_attribute("title")) == pytest.approx(mean)
    assert pixel(page, "success", 3, mean) == BLUE
    page.goto("about:blank")
    look_steadily(page, served, "overview", log=1)
    distribution = "(id) => document.getElementById(id).plot.scales.y.distr"
    assert page.evaluate(distribution, "chart-entropy") == 3
    assert page.evaluate(distribution, "chart-truncation") == 1, "it has zeros"
    page.uncheck("#log")
    page.wait_for_url("**/#/overview?runs=run")


def test_a_line_has_gaps_where_a_value_is_missing_and_the_colour_of_the_theme(
    page: Any, served: Served
) -> None:
    look_steadily(page, served, "overview")
    drawn = [step / 2 for step in range(7) if pixel(page, "gradient", step / 2, 0.5) == BLUE]
    assert drawn == [0, 0.5, 1, 3], "step 2 was NaN"
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.keyboard.press("t")
    after = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert before != after
    assert pixel(page, "gradient", 1, 0.5) == DARK_BLUE
    page.reload()
    page.wait_for_selector(".chart canvas")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == after


def test_runs_are_laid_over_each_other_and_lines_are_switched_off_by_their_names(
    page: Any, served: Served
) -> None:
    look_steadily(page, served, "overview")
    page.check("#run-second")
    page.wait_for_selector("#chart-success [data-label='second success/rate']")
    found = readout(page, "success")
    assert found["run success/rate"] == str(figures(3)["success/rate"])
    assert found["second success/rate"] == str(figures(2)["success/rate"])
    page.wait_for_selector("#chart-success canvas")
    places = [(3, figures(3)["success/rate"]), (1, figures(1)["success/rate"])]
    assert [pixel(page, "success", *place) for place in places] == [BLUE, ORANGE], (
        "the second is drawn on top"
    )
    page.click("#chart-success [data-label='second success/rate'] button")
    assert [pixel(page, "success", *place) for place in places] == [BLUE, BLUE]
    page.keyboard.press("2")
    page.wait_for_selector(VIEWS["health"])
    page.keyboard.press("1")
    page.wait_for_selector("#chart-success canvas")
    page.click("#chart-success [aria-pressed='false']")
    page.wait_for_selector("#chart-success [data-label='second success/rate'] [aria-pressed='true']")


def test_health_draws_clip_boundaries_alarm_limits_and_alarms(page: Any, served: Served) -> None:
    look_steadily(page, served, "health")
    bounds = [item.get_attribute("data-bound") for item in page.query_selector_all("[data-bound]")]
    assert bounds == ["0.8", "1.28"]
    assert readout(page, "ratios-0") == {"tokens": "104"}
    drawn = [pixel(page, "ratios-0", 1.2, ratio)[-2:] for ratio in (1.0, 0.6)]
    assert drawn == ["eb", ""], "blue where tokens are"
    assert readout(page, "alignment") == {"tokens/alignment": "1"}
    rows = page.query_selector_all("#alarms tr[data-step]")
    assert [row.get_attribute("data-step") for row in rows] == ["2", "1"]
    assert "truncation/rate is 0.9, above 0.3: episodes are truncated" in rows[1].text_content()
    dashes = {pixel(page, "cut", 0.1 * place, 0.3) for place in range(4, 16)}
    assert {"", "#b"} <= {colour[:2] for colour in dashes}, "the limit is a dashed red line"
    assert "alarm limit 30.0%" in page.inner_text("#chart-cut .readout")
    tints = [pixel(page, "active", step, 0.72) for step in (0.5, 1, 2)]
    assert tints[0] == ""
    assert all(int(tint[1:3], 16) > int(tint[5:7], 16) + 30 for tint in tints[1:]), "yellow, no grid line"
    page.focus("#chart-active")
    for _ in range(3):
        page.keyboard.press("ArrowLeft")
    assert page.inner_text("#chart-active .step") == "step 1, an alarm fired"
