"""A graph as a picture that needs nothing else: SVG with its own layout, fonts of the system, light and dark."""

from __future__ import annotations

from collections.abc import Iterator
from xml.sax.saxutils import escape

from noetl_compiler.diagnostics import printable
from noetl_compiler.graph import Graph, Step
from noetl_compiler.preview.arrows import arrows
from noetl_compiler.preview.layers import Box, Route, Size, place
from noetl_compiler.preview.order import reading_order
from noetl_compiler.preview.outline import Line, content

__all__ = ["svg"]

ROW = 17
PADDING = 12
CHARACTER = 7.3
"""Pixels of a character: an estimate, as no font is at hand; boxes have room for wider ones."""
LONGEST = 64
MARGIN = 40
LABEL = 40

_STYLE = """
.step rect { fill: #fff; stroke: #57606a; stroke-width: 1.2; rx: 8px }
.step.terminal rect { stroke-width: 2.4 } .step.loop rect { stroke: #0969da } .step.added rect { stroke-dasharray: 5 4 }
text { font: 12px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; fill: #24292f }
.name { font-weight: 700; font-size: 13px } .more { fill: #57606a }
.label { font-size: 11px; fill: #57606a; paint-order: stroke; stroke: #fff; stroke-width: 4px; text-anchor: middle }
path { fill: none; stroke: #57606a; stroke-width: 1.3 } .failure { stroke: #cf222e; stroke-dasharray: 5 4 }
.each { stroke: #0969da } marker path { fill: #57606a; stroke: none }
@media (prefers-color-scheme: dark) {
  .step rect { fill: #161b22; stroke: #8b949e } text { fill: #e6edf3 } .more, .label { fill: #9ea7b3 }
  .label { stroke: #0d1117 } path { stroke: #8b949e } marker path { fill: #8b949e } svg { background: #0d1117 }
}"""
_MARKER = (
    '<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">'
    '<path d="M0 0 10 5 0 10z"/></marker></defs>'
)


def svg(graph: Graph) -> str:
    """One ``<svg>`` element of many lines without a line break at the end."""
    steps = reading_order(graph)
    texts = {step.name: _rows(step) for step in steps}
    drawn = [arrow for step in steps for arrow in arrows(graph, step)]
    boxes, routes = place({name: _size(name, rows) for name, rows in texts.items()}, drawn)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {_view(boxes, routes)} role="img">',
            f"<title>{_safe(graph.source.name)}</title><style>{_STYLE}</style>{_MARKER}",
            *(_path(route) for route in routes),
            *(_box(graph, graph.steps[box.name], box, texts[box.name]) for box in boxes),
            *(_label(route) for route in routes if route.arrow.label),
            "</svg>",
        ]
    )


def _rows(step: Step) -> list[tuple[int, str]]:
    """The rows of a box below its name, with their depth."""
    return [(depth, _cut(line.text)) for depth, line in _flat(content(step), 0)]


def _flat(lines: list[Line], depth: int) -> Iterator[tuple[int, Line]]:
    for line in lines:
        yield depth, line
        yield from _flat(line.below, depth + 1)


def _cut(text: str, longest: int = LONGEST) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def _size(name: str, rows: list[tuple[int, str]]) -> Size:
    longest = max([16, 1.1 * len(_cut(name)), *(len(text) + 2 * depth for depth, text in rows)])
    return longest * CHARACTER + 2 * PADDING, (len(rows) + 1) * ROW + 1.5 * PADDING


def _view(boxes: list[Box], routes: list[Route]) -> str:
    xs = [x for box in boxes for x in (box.x - box.width / 2, box.x + box.width / 2)]
    xs += [x for route in routes for x, _ in route.points]
    xs += [x for route in routes if route.arrow.label for x in _label_ends(route)]
    left, width = min(xs) - MARGIN, max(xs) - min(xs) + 2 * MARGIN
    height = max(box.y + box.height for box in boxes) + 2 * MARGIN
    return f'viewBox="{left:g} {-MARGIN} {width:g} {height:g}" width="{width:g}" height="{height:g}"'


def _box(graph: Graph, step: Step, box: Box, rows: list[tuple[int, str]]) -> str:
    kinds = [
        "step",
        "terminal" if step.name in (graph.entry, graph.final) else "",
        "loop" if step.loop else "",
        "added" if step.injected else "",
    ]
    left, text = box.x - box.width / 2, box.y + PADDING + 8
    lines = [f'<text class="name" x="{left + PADDING:g}" y="{text:g}">{_safe(_cut(step.name))}</text>']
    for index, (depth, row) in enumerate(rows, 1):
        x = left + PADDING + 2 * depth * CHARACTER
        style = ' class="more"' if depth else ""
        lines.append(f'<text{style} x="{x:g}" y="{text + index * ROW:g}">{_safe(row)}</text>')
    shape = f'<rect x="{left:g}" y="{box.y:g}" width="{box.width:g}" height="{box.height:g}"/>'
    title = f"<title>{_safe(step.desc or step.name)}</title>"
    return f'<g class="{" ".join(filter(None, kinds))}">{title}{shape}{"".join(lines)}</g>'


def _path(route: Route) -> str:
    (x, y), *rest = route.points
    curve = f"M{x:g} {y:g}"
    if route.back:
        curve += "".join(f"L{to:g} {down:g}" for to, down in rest)
    else:
        for to, down in rest:
            middle = (y + down) / 2
            curve += f"C{x:g} {middle:g} {to:g} {middle:g} {to:g} {down:g}"
            x, y = to, down
    return f'<path class="{route.arrow.kind}" marker-end="url(#tip)" d="{curve}"/>'


def _label(route: Route) -> str:
    x, y = _middle(route)
    label = route.arrow.label
    text = f"<title>{_safe(label)}</title>{_safe(_cut(label, LABEL))}"
    return f'<text class="label" x="{x:g}" y="{y + 4:g}">{text}</text>'


def _label_ends(route: Route) -> tuple[float, float]:
    half = len(_cut(route.arrow.label, LABEL)) * CHARACTER / 2
    return _middle(route)[0] - half, _middle(route)[0] + half


def _middle(route: Route) -> tuple[float, float]:
    """Where the label stands: on the first stretch near its lower end, where arrows from one box have parted."""
    (x, y), (to, down) = route.points[1:3] if route.back else route.points[:2]
    share = 0.5 if route.back else 0.66
    return x + (to - x) * share, y + (down - y) * share


def _safe(text: str) -> str:
    return escape(printable(text))
