"""What case rules come to, in words."""

from __future__ import annotations

from pathlib import Path

import pytest

from noetl_compiler import compile_file
from noetl_compiler.preview.explain import explain
from noetl_compiler.preview.tree import tree

OK = Path(__file__).parent / "corpus" / "ok"


@pytest.mark.parametrize(
    ("name", "line"),
    [
        (
            "case_asides",
            "tell [http, at least once] GET http://localhost/tell, afterwards on error, unless error.kind == 'timeout'",
        ),
        ("case_asides", "fail on success: because {{ response.score }} is no score, when"),
        ("case_asides", "continue on success: result = response.score"),
        ("case_calls", "call again: up to 100 calls, called with cursor, while"),
        ("case_calls", "upsert into postgres table item, after every call, when "),
        ("case_loop", "on entering\n│  └─ set ctx.hot = []"),
        ("case_loop", "each item: when response.status == 200 and response.data.hot -> warn, pass last, all"),
    ],
)
def test_the_tree_shows_it(name: str, line: str) -> None:
    graph = compile_file(OK / f"{name}.yaml").graph
    assert graph is not None
    assert line in tree(graph)


def test_an_aside_is_explained() -> None:
    graph = compile_file(OK / "case_asides.yaml").graph
    assert graph is not None
    assert "its result is not the step's" in explain(graph, "judged")
