"""The fields that a rule changes for the next page are fields of the tool."""

from __future__ import annotations

import pytest

from noetl_compiler import compile_text
from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import Severity
from tests.compiler.marked import one


def paging(patch: str, tool: str = "kind: http, url: 'http://x'") -> str:
    again = f'{{when: "{{{{ output.data.more }}}}", then: {{do: again, patch: {patch}}}}}'
    return one(f"{{{tool}, spec: {{policy: {{rules: [{again}], on_unmatched: fail}}}}}}")


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
def test_a_patch_of_no_field_is_an_error(patch: str, name: str, hint: str) -> None:
    found = [one for one in compile_text(paging(patch)).diagnostics if one.code is Code.UNKNOWN_KEY]
    assert [(each.message, each.hint or "") for each in found] == [
        (f'patch names "{name}", which the tool http does not have', hint)
    ]


def test_in_an_older_dialect_it_is_a_warning() -> None:
    text = """apiVersion: noetl.io/v1
kind: Playbook
metadata: {name: pages, path: tests/pages}
workflow:
- step: start
  tool: {kind: http, url: 'http://x'}
  retry:
    on_success: {while: "{{ response.more }}", max_attempts: 3, next_call: {parms: {page: 2}}}
  next: [{step: end}]
- step: end
"""
    found = [each for each in compile_text(text).diagnostics if "patch names" in each.message]
    assert [(each.code, each.severity) for each in found] == [(Code.UNKNOWN_KEY, Severity.WARNING)]


@pytest.mark.parametrize("tool", ["kind: http, url: 'http://x'", "kind: of_a_third_party"])
def test_a_patch_of_fields_is_not(tool: str) -> None:
    assert not any("patch" in each.message for each in compile_text(paging("{params: {page: 2}}", tool)).diagnostics)
