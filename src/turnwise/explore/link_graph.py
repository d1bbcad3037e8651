"""The graph of links as an SVG: tools in layers from left to right, an arrow for every linked pair."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from turnwise.explore.exploration import Link
from turnwise.explore.findings import counted, one_line
from turnwise.explore.markup import Markup, element

MAX_NODES = 60
"""With more tools than this the picture is unreadable, and only the table of links is shown."""

_NODE_WIDTH, _NODE_HEIGHT = 190, 26
_COLUMN, _ROW, _MARGIN = 260, 40, 12
_MAX_LABEL = 26
_NUM_SWEEPS = 4
_NUM_COLOURS = 8


@dataclass(frozen=True, slots=True)
class Edge:
    """All links from one tool to another."""

    source: str
    target: str
    words: str
    num_calls: int


def edges_of(links: Sequence[Link]) -> list[Edge]:
    """One edge for every pair of different tools, in the order of their first links."""
    pairs: dict[tuple[str, str], list[Link]] = {}
    for link in links:
        if link.source_tool != link.target_tool:
            pairs.setdefault((link.source_tool, link.target_tool), []).append(link)
    return [
        Edge(
            source,
            target,
            ", ".join(f"{one_line(link.field)} → {one_line(link.parameter)}" for link in found[:10]),
            sum(link.num_calls for link in found),
        )
        for (source, target), found in pairs.items()
    ]


def layers_of(edges: Sequence[Edge]) -> list[list[str]]:
    """The tools by layer: every edge that closes no cycle goes to a later layer; crossings are reduced."""
    nodes = list(dict.fromkeys(name for edge in edges for name in (edge.source, edge.target)))
    forward = _without_cycles(nodes, edges)
    depth = dict.fromkeys(nodes, 0)
    for _ in nodes:  # a path without cycles has fewer edges than there are nodes
        for edge in forward:
            depth[edge.target] = max(depth[edge.target], depth[edge.source] + 1)
    layers: list[list[str]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for node in nodes:
        layers[depth[node]].append(node)
    for _ in range(_NUM_SWEEPS):
        _sort_by_neighbours(layers, edges)
    return layers


def link_graph(links: Sequence[Link], servers: Mapping[str, str]) -> Markup | None:
    """The picture, coloured by server (`servers` by tool); None without links or with too many tools."""
    edges = edges_of(links)
    layers = (
        layers_of(edges) if len({e.source for e in edges} | {e.target for e in edges}) <= MAX_NODES else []
    )
    if not layers:
        return None
    tallest = max(len(layer) for layer in layers)
    places = {
        node: (
            _MARGIN + column * _COLUMN,
            _MARGIN + round((row + (tallest - len(layer)) / 2) * _ROW),
        )
        for column, layer in enumerate(layers)
        for row, node in enumerate(layer)
    }
    colours = colours_of(servers)
    width = (len(layers) - 1) * _COLUMN + _NODE_WIDTH + 2 * _MARGIN
    height = (tallest - 1) * _ROW + _NODE_HEIGHT + 2 * _MARGIN
    most = max(edge.num_calls for edge in edges)
    arrow = element("path", d="M0,0 L8,4 L0,8 z")
    marker = element(
        "marker", arrow, id="arrow", viewBox="0 0 8 8", refX=8, refY=4, markerWidth=8, markerHeight=8,
        markerUnits="userSpaceOnUse", orient="auto",
    )  # fmt: skip
    return element(
        "svg",
        element("defs", marker),
        *(_arrow(edge, places, most) for edge in edges),
        *(_node(node, place, colours.get(servers.get(node, ""), 7)) for node, place in places.items()),
        viewBox=f"0 0 {width} {height}",
        width=width,
        height=height,
        class_="graph",
        role="img",
        aria_label="links between tools; the table below lists them",
    )


def colours_of(servers: Mapping[str, str]) -> dict[str, int]:
    """A colour number from 1 for every server."""
    names = list(dict.fromkeys(servers.values()))
    return {name: 1 + number % _NUM_COLOURS for number, name in enumerate(names)}


def _without_cycles(nodes: Sequence[str], edges: Sequence[Edge]) -> list[Edge]:
    """The edges without those that lead back to a node on the current depth-first path."""
    outgoing: dict[str, list[Edge]] = {node: [] for node in nodes}
    for edge in edges:
        outgoing[edge.source].append(edge)
    kept: list[Edge] = []
    open_, done = set[str](), set[str]()

    def walk(node: str) -> None:  # at most MAX_NODES deep
        open_.add(node)
        for edge in outgoing[node]:
            if edge.target in open_:
                continue
            kept.append(edge)
            if edge.target not in done:
                walk(edge.target)
        open_.remove(node)
        done.add(node)

    targets = {edge.target for edge in edges}
    for node in sorted(nodes, key=lambda name: name in targets):  # start where no link arrives
        if node not in done:
            walk(node)
    return kept


def _sort_by_neighbours(layers: list[list[str]], edges: Sequence[Edge]) -> None:
    """Order every layer by the mean position of the tools that its tools are linked with."""
    position = {node: row - len(layer) / 2 for layer in layers for row, node in enumerate(layer)}
    neighbours: dict[str, list[str]] = {node: [] for node in position}
    for edge in edges:
        neighbours[edge.source].append(edge.target)
        neighbours[edge.target].append(edge.source)

    def mean(node: str) -> float:
        return sum(position[other] for other in neighbours[node]) / len(neighbours[node])

    for layer in layers:
        layer.sort(key=mean)
        position.update({node: row - len(layer) / 2 for row, node in enumerate(layer)})


def _node(name: str, place: tuple[int, int], colour: int) -> Markup:
    x, y = place
    label = one_line(name, _MAX_LABEL)
    return element(
        "g",
        element("title", one_line(name, 200)),
        element("rect", x=x, y=y, width=_NODE_WIDTH, height=_NODE_HEIGHT, rx=5),
        element("text", label, x=x + _NODE_WIDTH // 2, y=y + 17, text_anchor="middle"),
        class_=f"node c{colour}",
    )


def _arrow(edge: Edge, places: Mapping[str, tuple[int, int]], most: int) -> Markup:
    (x1, y1), (x2, y2) = places[edge.source], places[edge.target]
    middle = _NODE_HEIGHT // 2
    if x2 > x1:
        start, end, bend = (x1 + _NODE_WIDTH, y1 + middle), (x2, y2 + middle), 50
        curve = f"C{start[0] + bend},{start[1]} {end[0] - bend},{end[1]}"
    else:  # back to the same or an earlier layer: below the boxes
        start, end = (x1 + _NODE_WIDTH // 2, y1 + _NODE_HEIGHT), (x2 + _NODE_WIDTH // 2, y2 + _NODE_HEIGHT)
        low = max(start[1], end[1]) + 24
        curve = f"C{start[0]},{low} {end[0]},{low}"
    words = (
        f"{one_line(edge.source)} → {one_line(edge.target)}: {edge.words}, {counted(edge.num_calls, 'call')}"
    )
    return element(
        "path",
        element("title", words),
        d=f"M{start[0]},{start[1]} {curve} {end[0]},{end[1]}",
        stroke_width=round(1 + 2 * edge.num_calls / max(most, 1), 2),
        marker_end="url(#arrow)",
        class_="edge",
    )
