"""The fields that a rule changes for the next page are fields of the tool."""

from __future__ import annotations

import pytest

from noetl_compiler import compile_text
from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import Severity
from tests.compiler.marked import playbook_of


def paging(patch: str, tool: str = "kind: http, url: 'http://x'") -> str:
    again_rule = f'{{when: "{{{{ output.data.more }}}}", then: {{do: again, patch: {patch}}}}}'
    return playbook_of(f"{{{tool}, spec: {{policy: {{rules: [{again_rule}], on_unmatched: fail}}}}}}")


@pytest.mark.parametrize(
    ("patch", "name", "hint"),
    [
        ("{parms: {page: 2}}", "parms", 'did you mean "params"?'),
        ("{params.page: 2}", "params.page", "write params: {page: ...}"),
        ("{json.filter.page: 2}", "json.filter.page", "write json: {filter: {page: ...}}"),
        ("{input.page: 2}", "input.page", "write rebind: {page: ...}"),
        ("{args: {page: 2}}", "args", "write rebind: {name: ...}"),
        ("{endpoint: 'http://y'}", "endpoint", "write url"),
        ("{xyz: 1}", "xyz", ""),
    ],
)
def test_a_patch_of_no_field_is_reported(patch: str, name: str, hint: str) -> None:
    diagnostics = [
        diagnostic for diagnostic in compile_text(paging(patch)).diagnostics if diagnostic.code is Code.UNKNOWN_KEY
    ]
    message = f'patch names "{name}", which the tool http does not have'
    assert [(each.severity, each.message, each.hint or "") for each in diagnostics] == [
        (Severity.WARNING, message, hint)
    ]


@pytest.mark.parametrize("tool", ["kind: http, url: 'http://x'", "kind: of_a_third_party"])
def test_a_patch_of_fields_is_not_reported(tool: str) -> None:
    assert not any("patch" in each.message for each in compile_text(paging("{params: {page: 2}}", tool)).diagnostics)
