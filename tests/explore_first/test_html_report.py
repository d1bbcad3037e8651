"""The HTML report in a real browser, its escaping, and the layout of the graph of links."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.explore_first import explored
from turnwise.explore.exploration import Exploration, Link
from turnwise.explore.first.html_report import html_report
from turnwise.explore.first.link_graph import MAX_EDGES, MAX_NODES, edges_of, layout_of, link_graph
from turnwise.explore.first.markup import element


def opened(page: Any, exploration: Exploration, folder: Path) -> Any:
    path = folder / "report.html"
    path.write_bytes(html_report(exploration))
    page.goto(path.as_uri())
    return page


def test_the_report_shows_every_part_of_an_exploration(page: Any, tmp_path: Path) -> None:
    opened(page, explored.shop(), tmp_path)
    assert "verified tasks\n120" in page.inner_text("#summary")
    row = page.inner_text("#servers tr:has(td:text-is('pay'))")
    assert "not reached" in row
    assert "needs a key" in row
    assert "did not start: command not found" in page.inner_text("#servers")
    assert page.locator("#links .node").count() == 3
    assert page.locator("#links .edge").count() == 2
    assert " ".join(page.inner_text("#tasks tbody tr >> nth=0").split()) == "lookup 40 40 0 0 20 10 10"
    assert page.locator("#tasks .bar").count() == 3
    assert "How many orders are open?" in page.inner_text("#rejections")
    assert page.locator("#samples article").count() == 30
    assert not page.is_visible("#samples pre >> nth=0")
    page.click("#samples summary >> nth=0")
    assert page.inner_text("#samples pre.call >> nth=0") == "shop_get_order(order_id=0)"


def test_the_style_sheet_is_applied_in_light_and_dark(page: Any, tmp_path: Path) -> None:
    back = "getComputedStyle(document.body).backgroundColor"
    page.emulate_media(color_scheme="light")
    opened(page, explored.shop(), tmp_path)
    assert page.evaluate(back) == "rgb(255, 255, 255)"
    page.emulate_media(color_scheme="dark")
    assert page.evaluate(back) == "rgb(20, 23, 27)"


@pytest.mark.parametrize("width", [360, 1280])
def test_the_page_is_not_wider_than_its_window(page: Any, tmp_path: Path, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    for exploration in (explored.shop(), explored.hostile(50), explored.empty()):
        opened(page, exploration, tmp_path)
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_hostile_texts_stay_text(page: Any, tmp_path: Path) -> None:
    opened(page, explored.hostile(), tmp_path)
    assert page.locator("script, img, iframe, object").count() == 0
    assert page.evaluate("[...document.querySelectorAll('*')].some((one) => one.getAttributeNames()"
                         ".some((name) => name.startsWith('on') || name === 'style'))") is False  # fmt: skip
    assert "<script>window.broken = 1</script>" in page.inner_text("#samples")


def test_a_large_exploration_gives_a_file_that_can_be_opened() -> None:
    found = html_report(explored.hostile(5_000))
    assert len(found) < 5_000_000
    assert b"and 4,700 more tools in report.json" in found


def test_the_same_exploration_gives_the_same_bytes() -> None:
    assert html_report(explored.shop()) == html_report(explored.shop())
    assert not re.search(rb"https?://", html_report(explored.shop()))


def test_texts_and_attributes_are_escaped() -> None:
    found = element("p", "<b>&", element("br"), title='"><script>', hidden=True, id=None)
    assert found.html == '<p title="&quot;&gt;&lt;script&gt;" hidden="">&lt;b&gt;&amp;<br></p>'


def links(*pairs: str) -> list[Link]:
    return [Link(pair[0], "id", pair[1], "id", 1) for pair in pairs]


def layers(*pairs: str) -> list[list[str]]:
    return layout_of(edges_of(links(*pairs))).tools


def test_a_tool_is_drawn_right_of_those_that_feed_it() -> None:
    assert layers("ab", "bc", "ac") == [["a"], ["b"], ["c"]]
    assert layers("ab", "ac", "bd", "cd") == [["a"], ["b", "c"], ["d"]]


def test_a_long_link_passes_between_the_tools_of_the_layers_it_crosses() -> None:
    layout = layout_of(edges_of(links("ab", "bc", "ac")))
    assert layout.routes == [["a", "b"], ["b", "c"], ["a", (2, 1), "c"]]
    assert layout.layers[1] == ["b", (2, 1)]


def test_cycles_and_loops_are_laid_out_too() -> None:
    assert layers("ab", "ba", "aa") == [["a"], ["b"]]
    assert layers("ab", "bc", "ca", "xa") == [["x"], ["a"], ["b"], ["c"]]
    assert layers() == []


def test_links_that_cross_are_sorted_apart() -> None:
    assert layers("ad", "bc", "ac") == [["a", "b"], ["d", "c"]]


def test_a_graph_of_too_many_tools_is_a_table_only() -> None:
    chain = [Link(f"t{number}", "id", f"t{number + 1}", "id", 1) for number in range(MAX_NODES)]
    assert link_graph(chain[:-1], {}) is not None
    assert link_graph(chain, {}) is None
    page = html_report(replace(explored.shop(), links=tuple(chain)))
    assert b"is drawn only if it has 2 to 60 tools" in page
    assert b"<td>t59</td>" in page


def test_of_very_many_links_the_most_used_are_drawn() -> None:
    pairs = [(one, other) for one in range(30) for other in range(30, 60)]
    dense = [Link(f"t{one}", "id", f"t{other}", "id", one * 30 + other) for one, other in pairs]
    graph = link_graph(dense, {})
    assert graph is not None
    assert graph.html.count('class="edge"') == MAX_EDGES
    assert "t29 → t59" in graph.html
    assert "t0 → t30" not in graph.html


def test_only_links_of_a_tool_with_itself_are_no_graph() -> None:
    assert link_graph(links("aa"), {}) is None
