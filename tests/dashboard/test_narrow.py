"""Every view on a phone: nothing is wider than the page, nothing scrolls sideways, no word is broken."""

from pathlib import Path
from typing import Any

from tests.dashboard.recorded import write_run
from tests.dashboard.serving import VIEWS, Serve, look
from tests.explore import explored
from turnwise.explore.report_json import as_json
from turnwise.system.files.atomic_write import write_json

TOO_WIDE = """() => [...document.querySelectorAll("body *")].filter((one) => {
  const box = one.getBoundingClientRect(), style = getComputedStyle(one);
  const isScrolled = ["auto", "scroll"].includes(style.overflowX) && one.scrollWidth > one.clientWidth + 1;
  return one.checkVisibility() && !one.closest(".u-wrap, svg") && (isScrolled || box.right > innerWidth + 1);
}).map((one) => one.outerHTML.slice(0, 160))"""
"""The elements that stick out on the right, or that have to be scrolled sideways."""

BROKEN_WORDS = """() => {
  const found = [], walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const range = document.createRange();
  while (walk.nextNode()) {
    const node = walk.currentNode, parent = node.parentElement;
    if (!parent.checkVisibility() || parent.closest("pre, code, .tokens, svg, option, .hostile")) continue;
    for (const word of node.data.matchAll(/[A-Za-z]{2,20}/g)) {
      range.setStart(node, word.index);
      range.setEnd(node, word.index + word[0].length);
      const boxes = [...range.getClientRects()].filter((box) => box.width > 0);
      const tops = new Set(boxes.map((box) => Math.round(box.top)));
      if (tops.size > 1) found.push(word[0] + " in: " + node.data.slice(0, 80));
    }
  }
  return found;
}"""
"""The words of letters that begin on one line and end on the next, with their text."""


def test_every_view_fits_a_phone(page: Any, serve: Serve, tmp_path: Path) -> None:
    run = write_run(tmp_path)
    write_json(tmp_path / "report.json", as_json(explored.shop()))
    served = serve(run)
    [row] = served.ask("trajectories", task="ace", first=3, last=3, success=0)["rows"]
    views = [(view, {}) for view in VIEWS]
    views += [
        ("trajectory", {"id": row["id"], "run": "run", **more})
        for more in ({}, {"tokens": "ratio"}, {"group": 1})
    ]
    page.set_viewport_size({"width": 390, "height": 844})
    for view, settings in views:
        page.goto("about:blank")
        look(page, served, view, **settings)
        page.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
        page.wait_for_timeout(200)  # charts take their width in the next frame
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, view
        assert page.evaluate(TOO_WIDE) == [], view
        assert page.evaluate(BROKEN_WORDS) == [], view
