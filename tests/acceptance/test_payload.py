"""``--payload`` and ``--set``: the values that they give, and invalid ones."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click
import pytest

from noetl_temporal.cli.payload import read_payload


@pytest.mark.parametrize(
    ("payload", "settings", "expected"),
    [
        (None, [], {}),
        ('{"a": 1}', [], {"a": 1}),
        (None, ["a=1", "b=x", "c=true", "d=null", "e="], {"a": 1, "b": "x", "c": True, "d": None, "e": None}),
        (None, ["a=[1, x]", "b={c: 2}"], {"a": [1, "x"], "b": {"c": 2}}),
        (None, ["a.b.c=1", "a.b.d=2"], {"a": {"b": {"c": 1, "d": 2}}}),
        ('{"a": {"b": 1}}', ["a.c=2", "a.b=3"], {"a": {"b": 3, "c": 2}}),
        (None, ["url=http://127.0.0.1:80/?a=b"], {"url": "http://127.0.0.1:80/?a=b"}),
        (
            None,
            ["day=2025-01-02", "at=2025-01-02 03:04:05"],
            {"day": "2025-01-02", "at": "2025-01-02 03:04:05"},
        ),
        (None, ["n='3'"], {"n": "3"}),
    ],
)
def test_values_of_set_and_payload(payload: str | None, settings: list[str], expected: dict[str, Any]) -> None:
    assert read_payload(payload, settings) == expected


@pytest.mark.parametrize(
    ("payload", "settings", "message"),
    [
        ("{", [], "--payload is not JSON: expecting property name enclosed in double quotes, at line 1, column 2"),
        ('{"a":\n 1', [], "is not JSON: expecting ',' delimiter, at line 2, column 3"),
        ('{"a": 1e400}', [], "is not JSON: 1e400 is not a finite number"),
        ('{"a": -Infinity}', [], "is not JSON: -Infinity is not a finite number"),
        ('{"a": "\\ud800"}', [], "is not JSON: an escape such as \\ud800 is half of a character"),
        ("request.json", [], "to read a file, write --payload @request.json"),
        ("[1]", [], "must be a JSON object"),
        ("@nowhere.json", [], "no such file: 'nowhere.json'"),
        (None, ["a"], "--set takes name=value"),
        (None, ["=1"], "--set takes name=value"),
        (None, ["a..b=1"], "--set takes name=value"),
        (None, ["a=1", "a.b=2"], "'a' already has a value"),
        (None, ["a=[1"], "is not a YAML value"),
        (None, ["a=.nan"], "is not a YAML value"),
        (None, ["a=&x [*x]"], "is not a YAML value"),
    ],
)
def test_invalid_payloads_are_refused(payload: str | None, settings: list[str], message: str) -> None:
    with pytest.raises(click.UsageError, match=re.escape(message)):
        read_payload(payload, settings)


def test_payload_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "request.json"
    file.write_text('{"city": "Oslo"}')
    assert read_payload(f"@{file}", ["city=Bergen"]) == {"city": "Bergen"}
