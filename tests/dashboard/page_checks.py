"""What holds in every view: one answer, named controls and pictures, contrast, and no scrolling sideways."""

from typing import Any

UNNAMED = """() => {
  const named = (one) => one.getAttribute("aria-label") || one.title || one.innerText.trim()
    || one.placeholder
    || (one.labels && [...one.labels].some((label) => label.innerText.trim()))
    || one.querySelector("[aria-label]");
  const controls = "a[href], button, input, select, summary, [tabindex='0']";
  return [...document.querySelectorAll(controls)].filter((one) => one.checkVisibility() && !named(one))
    .map((one) => one.outerHTML.slice(0, 120));
}"""

UNSAID = """() => [...document.querySelectorAll("svg")].filter((picture) => !picture.closest("[aria-hidden]")
  && !(picture.getAttribute("role") === "img" && picture.getAttribute("aria-label")))
  .map((picture) => picture.outerHTML.slice(0, 120))"""
"""Pictures without a text that says their result, unless hidden because a text beside them says it."""

FAINT = """(least) => {
  const parts = (colour) => { const all = colour.match(/[\\d.]+/g).map(Number);
    const scale = colour.startsWith("color(") ? 255 : 1;
    return [...all.slice(0, 3).map((part) => part * scale), all.length > 3 ? all[3] : 1]; };
  const over = (top, below) => top.slice(0, 3).map((part, at) => part * top[3] + below[at] * (1 - top[3]));
  const backOf = (one) => { const layers = [];
    for (let at = one; at; at = at.parentElement) layers.push(parts(getComputedStyle(at).backgroundColor));
    return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255]); };
  const light = (colour) => colour.map((part) => part / 255)
    .map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
    .reduce((sum, part, place) => sum + part * [0.2126, 0.7152, 0.0722][place], 0);
  const found = [];
  for (const one of document.querySelectorAll("body *")) {
    const isText = [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (!isText || !one.checkVisibility()) continue;
    if (one.closest(".sr, .skip, .tip, .toks, [disabled], i[aria-hidden]")) continue;
    const picture = one.closest("svg"), style = getComputedStyle(one);
    const back = backOf(picture ? picture.parentElement : one);
    const front = over(parts(picture ? style.fill : style.color), back);
    const [high, low] = [light(front), light(back)].sort((a, b) => b - a);
    const contrast = (high + 0.05) / (low + 0.05);
    if (contrast < least) found.push([contrast.toFixed(2), one.innerHTML.slice(0, 40), style.color]);
  }
  return found;
}"""
"""Texts whose contrast with what is behind them is less, by WCAG's formula."""

TOO_WIDE = """() => [...document.querySelectorAll("main *")].filter((one) => one.checkVisibility()
  && !one.closest(".scroll, pre, .toks, .json, .sky, svg, .sr, .menu, .tabs")
  && one.getBoundingClientRect().right > innerWidth + 1).map((one) => one.outerHTML.slice(0, 120))"""


def check_view(page: Any, *, least: float = 4.5) -> None:
    """Fail for a view with a fault that a reader meets: wide or narrow, with eyes or a screen reader."""
    assert page.locator("h1").count() == 1
    assert page.evaluate(UNNAMED) == []
    assert page.evaluate(UNSAID) == []
    assert page.evaluate(FAINT, least) == []
    page.wait_for_timeout(100)  # pictures take their width in the next frame
    width = page.viewport_size["width"]
    assert page.evaluate("document.documentElement.scrollWidth") <= width, page.evaluate(TOO_WIDE)
