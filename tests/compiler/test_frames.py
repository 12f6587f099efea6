"""``frame`` of a loop through all phases: defaults, places, words, migration, forecast."""

from __future__ import annotations

from noetl_compiler import compile_or_raise, compile_text
from noetl_compiler.forecast import forecast
from noetl_compiler.graph import Frame, Graph
from noetl_compiler.language.defaults import FRAME
from noetl_compiler.migration import migrate
from noetl_compiler.preview.phrases import loop_in_words
from noetl_compiler.source import SourceFile

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: p}\nworkload: {rows: 7}\nworkflow:\n"


def step(frame: str, items: int = 3, spec: str = "") -> str:
    return (
        f'{HEAD}  - step: start\n    loop: {{in: "{{{{ range({items}) | list }}}}", iterator: i, {frame}{spec}}}\n'
        "    tool: {kind: noop}\n"
    )


def graph_of(frame: str, items: int = 3, spec: str = "") -> Graph:
    return compile_or_raise(step(frame, items, spec), "p.yaml")


def frame_of(graph: Graph) -> Frame:
    loop = graph.steps["start"].loop
    assert loop is not None
    assert loop.frame is not None
    return loop.frame


def test_missing_limits_of_a_frame_are_in_the_graph() -> None:
    frame = frame_of(graph_of("frame: {max_rows: 5}"))
    fields = {name: getattr(frame, name).data for name in FRAME}
    assert fields == {**FRAME, "max_rows": 5}


def test_seconds_are_a_duration_and_templates_are_kept() -> None:
    frame = frame_of(graph_of('frame: {max_seconds: 2m, max_rows: "{{ workload.rows }}"}'))
    assert frame.max_seconds is not None
    assert frame.max_rows is not None
    assert frame.max_seconds.data == 120
    assert "" in frame.max_rows.templates


def test_the_template_of_a_frame_is_checked_at_its_place() -> None:
    diagnostics = compile_text(step('frame: {max_rows: "{{ nobody }}"}'), "p.yaml").diagnostics
    assert [(diagnostic.code.value, diagnostic.span.line) for diagnostic in diagnostics] == [("NT303", 7)]


def test_a_loop_without_a_frame_has_no_frame_in_its_graph() -> None:
    loop = graph_of("limit: 2").steps["start"].loop
    assert loop is not None
    assert loop.frame is None


def test_a_frame_is_described_in_words() -> None:
    loop = graph_of("frame: {max_rows: 5, max_seconds: 30, row_concurrency: 2}").steps["start"].loop
    assert loop is not None
    assert "framed: 5 items an activity, 2 at once, begun within 30 s" in loop_in_words(loop)


def test_a_migrated_frame_is_the_same_without_warnings() -> None:
    text = step('frame: {max_rows: "{{ workload.rows }}", max_seconds: 30}')
    migrated_text = migrate(SourceFile("p.yaml", text)).text
    assert migrated_text is not None
    assert "row_concurrency" not in migrated_text
    first, second = frame_of(compile_or_raise(text, "p.yaml")), frame_of(compile_or_raise(migrated_text, "p.yaml"))
    assert [getattr(first, name).data for name in FRAME] == [getattr(second, name).data for name in FRAME]


def test_a_framed_loop_is_forecast_as_one_activity_a_frame() -> None:
    step_forecast = forecast(graph_of("frame: {max_rows: 100}", items=1000)).steps[0]
    plain = forecast(graph_of("limit: 1000", items=1000)).steps[0]
    assert step_forecast.items == plain.items == 1000
    assert step_forecast.upper.calls == plain.upper.calls == 1000
    assert step_forecast.upper.children == 0
    assert step_forecast.upper.events <= 60
    assert step_forecast.lower.actions == 20
    assert step_forecast.upper.actions == 21  # its result is read once more
    assert step_forecast.bytes < plain.bytes


def test_items_are_spread_over_the_frames_that_run_at_once() -> None:
    spec = ", mode: parallel, max_in_flight: 64"
    step_forecast = forecast(graph_of("frame: {row_concurrency: 16}", items=100, spec=spec)).steps[0]
    assert step_forecast.lower.actions == 2 * 4
