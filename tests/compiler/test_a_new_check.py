"""A check that is added to the list of checks is known everywhere: the first diff of dev/decisions/0065 shows it."""

from __future__ import annotations

from pathlib import Path

from tests.page_diffs import answers_after, diffs_of

CHECK, _ = diffs_of("dev/decisions/0065-adding-a-check-and-an-event.md")

ASK = """
import json
from noetl_compiler import compile_text
from noetl_compiler.codes import Code, explanation
from noetl_compiler.sarif import sarif

text = f'''apiVersion: noetl.io/v2
kind: Playbook
metadata: {{name: x}}
workflow: [{{step: {"a" * 61}, tool: {{kind: noop}}}}]
'''
result = compile_text(text, "x.yaml")
[found] = result.diagnostics
print(json.dumps({
    "finding": [found.code.value, found.severity.value, found.span.line, found.message, found.hint],
    "sarif": "NT114" in sarif(result.diagnostics, "/"),
    "explained": explanation(Code("NT114")),
    "has a graph": result.graph is not None,
}))
"""


def test_it_is_reported_explained_and_counted(tmp_path: Path) -> None:
    answers = answers_after(tmp_path, ["compiler"], ASK, CHECK)
    assert answers["finding"][2:] == [4, "the name of this step has 61 characters", "use at most 60"]
    assert answers["finding"][:2] == ["NT114", "warning"]
    assert answers["sarif"]
    assert answers["has a graph"]
    assert "The name of a step has more than 60 characters" in answers["explained"]
