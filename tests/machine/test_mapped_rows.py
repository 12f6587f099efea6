"""Columns of a sink that are filled from templates and values, beside those filled from fields."""

from __future__ import annotations

from typing import Any

import pytest

from noetl_activities.errors import ConfigError
from noetl_compiler.graph import Json, Span, Value
from noetl_compiler.templates import TemplateFailure
from noetl_temporal.calls.mapped_rows import render_sink

SPAN = Span(1, 1, 1, 9)
DATA = [{"id": 1, "user": {"name": "Ada"}}, {"id": 2, "user": {"name": "Ben"}, "value": "1"}]


def render_rows(mapping: dict[str, Json], *templates: str, data: Json = None, **names: Any) -> dict[str, Json]:
    config = {"table": "t", "mapping": mapping, **({"data": data} if data is not None else {})}
    return render_sink(Value(config, {f"/mapping/{column}": SPAN for column in templates}), names, DATA)


def test_columns_are_filled_from_templates_fields_and_values() -> None:
    mapping: dict[str, Json] = {
        "name": "{{ row.user.name | upper }}",
        "number": "id",
        "source": "{{ iter.source }}",
        "kind": 7,
        "facts": {"of": "{{ row.id }}"},
    }
    row = render_rows(mapping, "name", "source", "facts/of", iter={"source": "api"})
    assert row == {
        "table": "t",
        "data": [
            {"name": "ADA", "number": 1, "source": "api", "kind": 7, "facts": {"of": 1}},
            {"name": "BEN", "number": 2, "source": "api", "kind": 7, "facts": {"of": 2}},
        ],
    }
    assert list(row["data"][0]) == list(mapping)


def test_text_that_a_template_gives_is_no_path() -> None:
    assert render_rows({"user": "{{ 'id' }}"}, "user")["data"] == [{"user": "id"}, {"user": "id"}]


def test_the_data_of_the_sink_are_mapped_instead_of_the_result() -> None:
    assert render_rows({"n": "{{ row.value + 1 }}"}, "n", data=[1, 2])["data"] == [{"n": 2}, {"n": 3}]


def test_the_row_hides_another_name_row() -> None:
    assert render_rows({"n": "{{ row.id }}"}, "n", row={"id": 9})["data"] == [{"n": 1}, {"n": 2}]


def test_a_field_that_a_row_lacks_fails_at_the_template() -> None:
    with pytest.raises(TemplateFailure, match=r'"row\.value" is undefined') as failure:
        render_rows({"n": "{{ row.value }}"}, "n")
    assert failure.value.span == SPAN
    assert render_rows({"n": "{{ row.value or none }}"}, "n")["data"] == [{"n": None}, {"n": "1"}]


def test_a_path_beside_templates_is_checked() -> None:
    with pytest.raises(ConfigError, match='the column "m" is filled from "nope"'):
        render_rows({"n": "{{ row.id }}", "m": "nope"}, "n")


@pytest.mark.parametrize("mapping", [{"id": "id"}, {}])
def test_a_mapping_without_templates_is_left_to_the_sink(mapping: dict[str, Json]) -> None:
    assert render_rows(mapping)["mapping"] == mapping
