"""The graph of links as an SVG: tools in layers from left to right, an arrow for every linked pair."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from turnwise.explore.exploration import Link
from turnwise.explore.first.findings import counted, one_line
from turnwise.explore.first.markup import Markup, element

MAX_NODES = 60
"""With more tools than this the picture is unreadable, and only the table of links is shown."""

MAX_EDGES = 120
"""With more pairs of linked tools than this, only the most used are drawn."""

Stop = str | tuple[int, int]
"""A tool, or a waypoint of a long edge: the edge's number and the layer."""

_NODE_WIDTH, _NODE_HEIGHT = 190, 26
_COLUMN, _ROW, _WAYPOINT_ROW, _MARGIN = 260, 40, 14, 16
_BEND = 40
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


@dataclass(frozen=True, slots=True)
class Layout:
    """Tools and waypoints in layers from left to right, and the stops of every edge."""

    layers: list[list[Stop]]
    routes: list[list[Stop]]
    """For every edge: its source, a waypoint in every layer between, its target."""

    @property
    def tools(self) -> list[list[str]]:
        return [[stop for stop in layer if isinstance(stop, str)] for layer in self.layers]


def layout_of(edges: Sequence[Edge]) -> Layout:
    """Place tools so that every edge that closes no cycle goes to a later layer; crossings are reduced."""
    nodes = list(dict.fromkeys(name for edge in edges for name in (edge.source, edge.target)))
    forward = _without_cycles(nodes, edges)
    depth = dict.fromkeys(nodes, 0)
    for _ in nodes:  # a path without cycles has fewer edges than there are nodes
        for edge in forward:
            depth[edge.target] = max(depth[edge.target], depth[edge.source] + 1)
    layers: list[list[Stop]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for node in nodes:
        layers[depth[node]].append(node)
    routes: list[list[Stop]] = []
    for number, edge in enumerate(edges):
        between = range(depth[edge.source] + 1, depth[edge.target])
        waypoints: list[Stop] = [(number, layer) for layer in between]
        for layer, waypoint in zip(between, waypoints, strict=True):
            layers[layer].append(waypoint)
        routes.append([edge.source, *waypoints, edge.target])
    for _ in range(_NUM_SWEEPS):
        _sort_by_neighbours(layers, routes)
    return Layout(layers, routes)


def link_graph(links: Sequence[Link], servers: Mapping[str, str]) -> Markup | None:
    """The picture, coloured by server (`servers` by tool); None without links or with too many tools."""
    edges = sorted(edges_of(links), key=lambda edge: -edge.num_calls)[:MAX_EDGES]
    if not edges or len({name for edge in edges for name in (edge.source, edge.target)}) > MAX_NODES:
        return None
    layout = layout_of(edges)
    heights = [sum(map(_height, layer)) for layer in layout.layers]
    places: dict[Stop, tuple[int, int]] = {}
    for column, layer in enumerate(layout.layers):
        y = _MARGIN + (max(heights) - heights[column]) // 2
        for stop in layer:
            places[stop] = (_MARGIN + column * _COLUMN, y)
            y += _height(stop)
    colours = colours_of(servers)
    width = (len(layout.layers) - 1) * _COLUMN + _NODE_WIDTH + 2 * _MARGIN
    height = max(heights) + 2 * _MARGIN
    arrow = element("path", d="M0,0 L8,4 L0,8 z")
    marker = element(
        "marker", arrow, id="arrow", viewBox="0 0 8 8", refX=8, refY=4, markerWidth=8, markerHeight=8,
        markerUnits="userSpaceOnUse", orient="auto",
    )  # fmt: skip
    return element(
        "svg",
        element("defs", marker),
        *(
            _arrow(edge, [places[stop] for stop in route], edges[0].num_calls)
            for edge, route in zip(edges, layout.routes, strict=True)
        ),
        *(
            _node(stop, place, colours.get(servers.get(stop, ""), _NUM_COLOURS - 1))
            for stop, place in places.items()
            if isinstance(stop, str)
        ),
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


def _sort_by_neighbours(layers: list[list[Stop]], routes: Sequence[Sequence[Stop]]) -> None:
    """Order every layer by the mean position of the stops that its stops are connected with."""
    position = {stop: row - len(layer) / 2 for layer in layers for row, stop in enumerate(layer)}
    neighbours: dict[Stop, list[Stop]] = {stop: [] for stop in position}
    for route in routes:
        for one, other in itertools.pairwise(route):
            neighbours[one].append(other)
            neighbours[other].append(one)

    def mean(stop: Stop) -> float:
        return sum(position[other] for other in neighbours[stop]) / len(neighbours[stop])

    for layer in layers:
        layer.sort(key=mean)
        position.update({stop: row - len(layer) / 2 for row, stop in enumerate(layer)})


def _height(stop: Stop) -> int:
    return _ROW if isinstance(stop, str) else _WAYPOINT_ROW


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


def _arrow(edge: Edge, places: Sequence[tuple[int, int]], most: int) -> Markup:
    (x1, y1), (x2, y2) = places[0], places[-1]
    middle = _NODE_HEIGHT // 2
    if x2 > x1:
        x, y = x1 + _NODE_WIDTH, y1 + middle
        path = f"M{x},{y}"
        for number, (next_x, top) in enumerate(places[1:], start=2):
            is_tool = number == len(places)
            next_y = top + (middle if is_tool else _WAYPOINT_ROW // 2)
            path += f" C{x + _BEND},{y} {next_x - _BEND},{next_y} {next_x},{next_y}"
            path += "" if is_tool else f" L{next_x + _NODE_WIDTH},{next_y}"
            x, y = next_x + _NODE_WIDTH, next_y
    else:  # back to the same or an earlier layer: below the boxes
        x, y, low = x1 + _NODE_WIDTH // 2, y1 + _NODE_HEIGHT, max(y1, y2) + _NODE_HEIGHT + 20
        path = (
            f"M{x},{y} C{x},{low} {x2 + _NODE_WIDTH // 2},{low} {x2 + _NODE_WIDTH // 2},{y2 + _NODE_HEIGHT}"
        )
    words = (
        f"{one_line(edge.source)} → {one_line(edge.target)}: {edge.words}, {counted(edge.num_calls, 'call')}"
    )
    return element(
        "path",
        element("title", words),
        d=path,
        stroke_width=round(1 + 2 * edge.num_calls / max(most, 1), 2),
        marker_end="url(#arrow)",
        class_="edge",
    )
