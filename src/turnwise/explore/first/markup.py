"""HTML and SVG elements; every text and attribute is escaped, so that no server's text becomes markup."""

import html
from dataclasses import dataclass

from turnwise.system.terminal import printable


@dataclass(frozen=True, slots=True)
class Markup:
    """HTML that was built here, as opposed to text that must be escaped."""

    html: str


Child = Markup | str | int
Attribute = str | int | float | bool | None

_VOID = {"meta", "br"}


def element(tag: str, *children: Child, **attributes: Attribute) -> Markup:
    """An element; `class_` stands for `class`, and `_` in other names for `-`. None and False are left out.

    element("td", "a < b", class_="number") is <td class="number">a &lt; b</td>
    """
    given = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escaped("" if value is True else str(value))}"'
        for name, value in attributes.items()
        if value is not None and value is not False
    )
    if tag in _VOID:
        return Markup(f"<{tag}{given}>")
    return Markup(f"<{tag}{given}>{joined(*children).html}</{tag}>")


def joined(*children: Child) -> Markup:
    return Markup(
        "".join(child.html if isinstance(child, Markup) else escaped(str(child)) for child in children)
    )


def escaped(text: str) -> str:
    """Text as HTML; characters that cannot be seen, which may reorder the text, become U+FFFD."""
    return html.escape(printable(text))
