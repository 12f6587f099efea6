"""A graph as a self-contained SVG with system fonts and a light and a dark colour scheme."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape

from noetl_compiler.diagnostics import columns
from noetl_compiler.graph import Graph, Step
from noetl_compiler.language.tool_description import Tools
from noetl_compiler.language.tools import KINDS
from noetl_compiler.preview.arrows import MAX_LABEL_COLUMNS, Arrow, arrows
from noetl_compiler.preview.geometry import NO_LABEL, Box, Curve, Size, path_data
from noetl_compiler.preview.layers import lay_out
from noetl_compiler.preview.order import reading_order
from noetl_compiler.preview.outline import Line, content
from noetl_compiler.preview.phrases import truncate
from noetl_compiler.preview.region_boxes import RegionBox, region_boxes
from noetl_compiler.preview.wrapping import wrap
from noetl_compiler.printable import printable_line

__all__ = ["svg"]

ROW_HEIGHT, LABEL_ROW_HEIGHT = 17, 14
PADDING = 12
CHARACTER_WIDTH, LABEL_CHARACTER_WIDTH = 7.3, 6.7
"""Estimated width of a character in pixels; boxes are padded for wider fonts."""
MAX_COLUMNS, MAX_NAME_COLUMNS, MAX_REGION_COLUMNS = 62, 58, 40
MARGIN = 40

_STYLE = """
.step rect { fill: #fff; stroke: #57606a; stroke-width: 1.2; rx: 8px }
.step.terminal rect { stroke-width: 2.4 } .step.loop rect { stroke: #0969da } .step.added rect { stroke-dasharray: 5 4 }
a:focus-visible .step rect, a:hover .step rect { fill: #ddf4ff }
.frame rect { fill: #0969da; fill-opacity: .05; stroke: #0969da; stroke-opacity: .5; stroke-dasharray: 2 4; rx: 12px }
text { font: 12px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; fill: #24292f; white-space: pre }
.name { font-weight: 700; font-size: 13px } .more { fill: #57606a } .frame text { font-size: 11px; fill: #0969da }
.label text { font-size: 11px; fill: #57606a; text-anchor: middle } .label rect { fill: #fff }
path { fill: none; stroke: #57606a; stroke-width: 1.3 } .failure { stroke: #cf222e; stroke-dasharray: 5 4 }
.each { stroke: #0969da } marker path { fill: #57606a; stroke: none }
@media (prefers-color-scheme: dark) {
  .step rect { fill: #161b22; stroke: #8b949e } text { fill: #e6edf3 } .more, .label text { fill: #9ea7b3 }
  .step.loop rect { stroke: #58a6ff } .frame text { fill: #58a6ff } .each { stroke: #58a6ff }
  a:focus-visible .step rect, a:hover .step rect { fill: #1f3a5f }
  .label rect { fill: #0d1117 } path { stroke: #8b949e } .failure { stroke: #ff7b72 } marker path { fill: #8b949e }
  svg { background: #0d1117 }
}"""
_MARKER = (
    '<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">'
    '<path d="M0 0 10 5 0 10z"/></marker></defs>'
)


def svg(graph: Graph, links: Mapping[str, str] | None = None, tools: Tools = KINDS) -> str:
    """Return an ``<svg>`` element, without a trailing newline. ``links``: step -> URL for its box."""
    steps = reading_order(graph)
    texts = {step.name: _rows(step, tools) for step in steps}
    drawn_arrows = [arrow for step in steps for arrow in arrows(graph, step)]
    sizes = {name: _size(name, rows) for name, rows in texts.items()}
    boxes, curves = lay_out(sizes, drawn_arrows, [_label_size(arrow) for arrow in drawn_arrows])
    regions = region_boxes(graph, boxes)
    name = _escape(graph.source.name)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {_view(boxes, curves)} {_role(name)}>',
            f"<title>{name}</title><style>{_STYLE}</style>{_MARKER}",
            *map(_region_box, regions),
            *(_path(curve) for curve in curves),
            *(_link(_box(graph, box, texts[box.name]), links, box.name) for box in boxes),
            *(_label(curve) for curve in curves if curve.label),
            "</svg>",
        ]
    )


def _rows(step: Step, tools: Tools) -> list[tuple[int, str]]:
    """Return (depth, text) for the rows of a box below its name. Wrapped lines continue one level deeper."""
    lines = _flatten(content(step, tools), 0)
    return [(depth + bool(part), text) for depth, line in lines for part, text in _parts(line, depth)]


def _parts(line: Line, depth: int) -> Iterator[tuple[int, str]]:
    yield from enumerate(wrap(printable_line(line.text), MAX_COLUMNS - 2 * depth))


def _flatten(lines: Sequence[Line], depth: int) -> Iterator[tuple[int, Line]]:
    for line in lines:
        yield depth, line
        yield from _flatten(line.children, depth + 1)


def _size(name: str, rows: list[tuple[int, str]]) -> Size:
    longest = max(
        [16, 1.1 * columns(truncate(name, MAX_NAME_COLUMNS)), *(columns(text) + 2 * depth for depth, text in rows)]
    )
    return longest * CHARACTER_WIDTH + 2 * PADDING, (len(rows) + 1) * ROW_HEIGHT + 1.5 * PADDING


def _label_rows(arrow: Arrow) -> list[str]:
    return wrap(printable_line(arrow.label), MAX_LABEL_COLUMNS)


def _label_size(arrow: Arrow) -> Size:
    if not arrow.label:
        return NO_LABEL
    rows = _label_rows(arrow)
    return max(map(columns, rows)) * LABEL_CHARACTER_WIDTH + PADDING, LABEL_ROW_HEIGHT * len(rows) + 2.0


def _view(boxes: list[Box], curves: list[Curve]) -> str:
    xs = [x for box in boxes for x in (box.x - box.width / 2, box.x + box.width / 2)]
    xs += [x for curve in curves for x, _ in curve.points]
    ys = [0.0, max(box.y + box.height for box in boxes)]
    for (x, y), (width, height) in ((curve.label, _label_size(curve.arrow)) for curve in curves if curve.label):
        xs += [x - width / 2, x + width / 2]
        ys += [y - height / 2, y + height / 2]
    left, top = min(xs) - MARGIN, min(ys) - MARGIN
    width, height = max(xs) + MARGIN - left, max(ys) + MARGIN - top
    return f'viewBox="{left:g} {top:g} {width:g} {height:g}" width="{width:g}" height="{height:g}"'


def _box(graph: Graph, box: Box, rows: list[tuple[int, str]]) -> str:
    step = graph.steps[box.name]
    kinds = [
        "step",
        "terminal" if step.name in (graph.entry, graph.final) else "",
        "loop" if step.loop else "",
        "added" if step.injected else "",
    ]
    left, text = box.x - box.width / 2, box.y + PADDING + 8
    name = _escape(truncate(step.name, MAX_NAME_COLUMNS))
    lines = [f'<text class="name" x="{left + PADDING:g}" y="{text:g}">{name}</text>']
    for index, (depth, row) in enumerate(rows, 1):
        x = left + PADDING + 2 * depth * CHARACTER_WIDTH
        style = ' class="more"' if depth else ""
        lines.append(f'<text{style} x="{x:g}" y="{text + index * ROW_HEIGHT:g}">{_escape(row)}</text>')
    contents = (
        f"<title>{_escape(step.desc or step.name)}</title>{_rect(left, box.y, box.width, box.height)}{''.join(lines)}"
    )
    return f'<g class="{" ".join(filter(None, kinds))}">{contents}</g>'


def _role(name: str) -> str:
    """Mark the diagram as a group, so that screen readers read each box."""
    return f'role="group" aria-label="{_escape_quotes(name)}"'


def _link(box: str, links: Mapping[str, str] | None, name: str) -> str:
    return f'<a href="{_escape_quotes(links[name])}">{box}</a>' if links and name in links else box


def _region_box(box: RegionBox) -> str:
    x, y, label = box.left + PADDING, box.top + PADDING + 2, _escape(truncate(box.label, MAX_REGION_COLUMNS))
    shape = _rect(box.left, box.top, box.width, box.height)
    return f'<g class="frame">{shape}<text x="{x:g}" y="{y:g}">{label}</text></g>'


def _rect(left: float, top: float, width: float, height: float) -> str:
    return f'<rect x="{left:g}" y="{top:g}" width="{width:g}" height="{height:g}"/>'


def _path(curve: Curve) -> str:
    tip = "" if curve.is_joining else ' marker-end="url(#tip)"'
    return f'<path class="{curve.arrow.kind}"{tip} d="{path_data(curve)}"/>'


def _label(curve: Curve) -> str:
    """Draw the rows of a label on a background that hides the line behind them."""
    (x, y), (width, height) = curve.label or (0.0, 0.0), _label_size(curve.arrow)
    top = y - height / 2
    rows = "".join(
        f'<text x="{x:g}" y="{top + LABEL_ROW_HEIGHT * number - 3:g}">{_escape(row)}</text>'
        for number, row in enumerate(_label_rows(curve.arrow), 1)
    )
    background = _rect(x - width / 2 + PADDING / 4, top, width - PADDING / 2, height)
    return f'<g class="label"><title>{_escape(curve.arrow.label)}</title>{background}{rows}</g>'


def _escape(text: str) -> str:
    return escape(printable_line(text))


def _escape_quotes(text: str) -> str:
    return text.replace('"', "&quot;")
