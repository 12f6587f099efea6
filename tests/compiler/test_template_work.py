"""The work of renderings is counted equally in every process, so that a replay stops where the first run did."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noetl_compiler.graph import Span, Value
from noetl_compiler.templates import TemplateFailure, predicate, project, render, render_text, work_done

SPAN = Span(1, 1, 1, 9)
SCOPE: dict[str, Any] = {
    "rows": [{"id": index, "name": f"n{index}", "tags": ["a", "b"]} for index in range(50)],
    "by_name": {f"k{index}": index for index in range(50)},
    "text": "word " * 200,
}
VALUE = Value({"a": "{{ rows }}", "b": ["{{ text | upper }}"], "c": 1}, {"/a": SPAN, "/b/0": SPAN})

RENDERINGS: dict[str, Callable[[], object]] = {
    "a value": lambda: render(VALUE, SCOPE),
    "a path": lambda: render_text("{{ rows[3].name }}", SCOPE),
    "keys": lambda: render_text("{{ by_name | dictsort | map('first') | join(',') }}", SCOPE),
    "a loop": lambda: render_text("{% for row in rows %}{{ row.id * 2 }}{% endfor %}", SCOPE),
    "a set of rows": lambda: render_text("{{ rows | map(attribute='name') | unique | list }}", SCOPE),
    "a predicate": lambda: predicate("{{ 'word' in text and rows | length > 3 }}", SCOPE),
    "an undefined name": lambda: predicate("{{ nope.deep > 1 }}", SCOPE),
    "a projection": lambda: project(SCOPE, ["rows", "by_name.k1"]),
    "a mistake": lambda: render_text("{{ rows | sum }}", SCOPE),
    "too much": lambda: render_text("{% for a in range(90000) %}{{ rows }}{% endfor %}", SCOPE),
    "no template": lambda: render_text("{{ a b }}", SCOPE),
}


def work_of(rendering: Callable[[], object]) -> int:
    before = work_done()
    with contextlib.suppress(TemplateFailure):
        rendering()
    return work_done() - before


def all_work() -> dict[str, int]:
    return {name: work_of(rendering) for name, rendering in RENDERINGS.items()}


def test_work_is_the_same_in_every_process_and_whether_templates_are_known() -> None:
    cold = [in_a_process(seed) for seed in ("0", "1", "4242")]
    work_here = str(all_work())
    assert cold == [work_here] * 3
    assert str(all_work()) == work_here


def in_a_process(seed: str) -> str:
    source = "from tests.compiler import test_template_work; print(test_template_work.all_work())"
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    report = subprocess.run([sys.executable, "-c", source], env=environment, capture_output=True, text=True, check=True)
    return report.stdout.strip()


@pytest.mark.parametrize("name", [name for name in RENDERINGS if name != "no template"])
def test_every_rendering_is_work(name: str) -> None:
    assert work_of(RENDERINGS[name]) > 100


def test_larger_renderings_are_more_work() -> None:
    assert work_of(RENDERINGS["a loop"]) > work_of(RENDERINGS["a path"])
    assert work_of(RENDERINGS["too much"]) > 1_000_000
    work = work_of(lambda: [predicate("{{ row.id > 3 }}", {"row": row}) for row in SCOPE["rows"]])
    assert work == 50 * work_of(lambda: predicate("{{ row.id > 3 }}", {"row": {"id": 1}}))


def test_work_of_another_thread_is_not_ours() -> None:
    before = work_done()
    other = threading.Thread(target=lambda: work_of(RENDERINGS["too much"]))
    other.start()
    RENDERINGS["a path"]()
    other.join()
    assert work_done() - before == work_of(RENDERINGS["a path"])


DATA = st.recursive(
    st.none() | st.integers(0, 9) | st.sampled_from(["", "ab"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=12,
)
SOURCES = st.sampled_from(
    [
        "{{ [x, y, x] }}",
        "{{ x == y }}",
        "{{ [[x], y] | tojson }}",
        "{{ [x, x] | length }}{{ y }}",
        "{{ [x] * 100000 }}",
        "{{ [[x, y]] * 20000 + [x] * 100000 }}",
    ]
)


@given(SOURCES, DATA)
def test_it_makes_no_difference_whether_parts_of_the_scope_are_the_same_object(source: str, data: Any) -> None:
    """After a replay or a restored snapshot they need not be."""
    shared_work = work_of(lambda: render_text(source, {"x": data, "y": data}))
    assert shared_work == work_of(lambda: render_text(source, {"x": copy_of(data), "y": copy_of(data)}))


def copy_of(data: Any) -> Any:
    return json.loads(json.dumps(data))
