from __future__ import annotations

import math
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from noetl_compiler import compile_text
from noetl_compiler.codes import Code
from noetl_compiler.graph import Json, Span
from noetl_compiler.reader import MAX_BYTES, MappingNode, ScalarNode, read, read_file, to_json, value_of
from noetl_compiler.reading import budget
from noetl_compiler.reading.budget import MAX_REPEATED_NODES
from noetl_compiler.source import SourceFile


def data(text: str) -> Json:
    root, diagnostics = read(SourceFile("p.yaml", text))
    assert not diagnostics
    assert root is not None
    return to_json(root)


def findings(text: str) -> list[tuple[str, int, int]]:
    _, diagnostics = read(SourceFile("p.yaml", text))
    return [(diagnostic.code.value, diagnostic.span.line, diagnostic.span.col) for diagnostic in diagnostics]


SCALARS = """
1 -1 0x1F 0o17 017 0b101 1_000 12:30 1.5 1e3 1.0e+3 .5 true Yes off null ~ '' '1' a << =
"""


@pytest.mark.parametrize("text", [*SCALARS.split(), "!!str 1", "!!int '7'", "!!null ''", "!!float 3", "a b"])
def test_scalars_are_those_of_pyyaml(text: str) -> None:
    expected = text if text in ("<<", "=") else yaml.safe_load(text)
    value = data(f"a: {text}")["a"]
    assert (value, type(value)) == (expected, type(expected))


@pytest.mark.parametrize("text", ["2024-01-31", "2024-01-31T10:00:00Z", "2024-01-31 10:00:00.5 +01:00"])
def test_dates_stay_text(text: str) -> None:
    assert data(f"a: {text}") == {"a": text}


def test_keys_are_strings_as_written() -> None:
    keys = ["on", "yes", "No", "404", "1.5", "null", "2024-01-31", "true"]
    assert list(data("".join(f"{key}: 1\n" for key in keys))) == keys


def test_a_key_by_alias_is_its_text_too() -> None:
    assert data("a: &n 404\nb: {*n : x}") == {"a": 404, "b": {"404": "x"}}


def test_merge_keys_are_merged() -> None:
    text = "a: &a {x: 1, y: 1}\nb: &b {y: 2, z: 2}\nc: {<<: [*a, *b], z: 3}\nd:\n  <<: *a\n"
    assert data(text) == yaml.safe_load(text)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(JSON, st.sampled_from([None, True, False]))
def test_documents_written_by_pyyaml_are_read_back(document: Json, flow: bool | None) -> None:
    assert data(yaml.safe_dump(document, default_flow_style=flow)) == document


SHAPES = st.text(alphabet="ab:- \n\t'\"[]{}#&*!|>%@`,?<~1.\\\x01é\ufeff\ud800")


@given(st.one_of(st.text(), SHAPES, st.lists(SHAPES).map("\n".join)))
def test_any_text_gives_nodes_or_reasons(text: str) -> None:
    source = SourceFile("p.yaml", text)
    root, diagnostics = read(source)
    assert root is not None or diagnostics
    for diagnostic in diagnostics:
        assert (diagnostic.span.line, diagnostic.span.col) == source.position(
            source.offset(diagnostic.span.line, diagnostic.span.col)
        )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: 1\nb: 2\na: 3\na: 4\n", [("NT003", 3, 1), ("NT003", 4, 1)]),
        ("a: {b: 1, b: 2}\nc: [{d: 1, d: 2}]\n", [("NT003", 1, 11), ("NT003", 2, 12)]),
        ("a: !env X\nb: !!binary aa\n", [("NT005", 1, 4), ("NT005", 2, 4)]),
        ("a: !!set {x}\n", [("NT005", 1, 4)]),
        ("? [1]\n: 2\nb: 1\n", [("NT005", 1, 3)]),
        ("a: {{ x }}\n", [("NT005", 1, 4)]),
        ("a: .inf\nb: -.INF\nc: .nan\n", [("NT005", 1, 4), ("NT005", 2, 4), ("NT005", 3, 4)]),
        ("a: 99999999999999999999\n", [("NT005", 1, 4)]),
        ("a: !!int x\n", [("NT005", 1, 4)]),
        ("a: {<<: 1}\n", [("NT005", 1, 9)]),
        ("a: 1\n---\nb: 1\n", [("NT005", 2, 1)]),
        ("%TAG ! tag:x,2000:\n---\na: 1\n", [("NT005", 1, 1)]),
        ("&a [*a]\n", [("NT005", 1, 5)]),
        ("a: *b\n", [("NT002", 1, 4)]),
        ("a: [1\nb: 2\n", [("NT002", 2, 2)]),
        ("a: 'x\n", [("NT002", 1, 4)]),
        ("a: b: c\n", [("NT002", 1, 5)]),
        ("a: \x07\n", [("NT002", 1, 4)]),
        ("", [("NT002", 1, 1)]),
        ("# only a comment\n", [("NT002", 1, 1)]),
        ("a: 1\na: 2\nb: [", [("NT003", 2, 1), ("NT002", 3, 5)]),
    ],
)
def test_mistakes_are_found_where_they_are(text: str, expected: list[tuple[str, int, int]]) -> None:
    assert findings(text) == expected


def test_the_first_of_two_keys_counts_and_is_shown() -> None:
    root, (diagnostic,) = read(SourceFile("p.yaml", "a: 1\na: 2\n"))
    assert root is not None
    assert to_json(root) == {"a": 1}
    assert [other.span for other in diagnostic.related] == [Span(1, 1, 1, 2)]


def test_a_template_without_quotes_is_reported_as_such() -> None:
    _, (diagnostic,) = read(SourceFile("p.yaml", "url: {{ workload.url }}\n"))
    assert "not quoted" in diagnostic.message


BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 60))
REFUSED_TEXTS = {
    "a bomb of aliases": BOMB,
    "a bomb of merge keys": "a: &a {"
    + ",".join(f"k{n}: 1" for n in range(999))
    + "}\nb: {<<: ["
    + "*a," * 9999
    + "]}\n",
    "a bomb of text": "a: &a " + "x" * 1_000_000 + "\nb: [" + "*a," * 10 + "]\n",
    "too deep in brackets": "[" * 500_000,
    "too deep in braces": "{a: " * 500_000,
    "too deep in dashes": "- " * 500_000,
    "too deep in question marks": "? " * 500_000,
    "too deep by aliases": "".join(f"a{n}: &a{n} [{f'*a{n - 1}' if n else 1}]\n" for n in range(5000)),
    "too long": "a" * (MAX_BYTES + 1),
    "too many bytes": "é" * (MAX_BYTES // 2 + 1),
    "too many findings": "a: 1\n" * 1000,
    "four megabytes of lists": f"a: [{'[],' * 1_300_000}]",
    "four megabytes of lists in lists": "a: [" + ("[" + "[]," * 1000 + "],") * 1300 + "]",
    "four megabytes of keys": "a: {" + "".join(f"{key}: ," for key in range(500_000)) + "}",
    "merges of merges": "a: " + "{<<: " * 99 + "{" + "".join(f"k{key}: 1," for key in range(90_000)) + "}" * 100,
}


@pytest.mark.parametrize("name", REFUSED_TEXTS)
def test_documents_over_the_budgets_are_refused(name: str) -> None:
    root, diagnostics = read(SourceFile("p.yaml", REFUSED_TEXTS[name]))
    assert root is None
    assert diagnostics[-1].code is Code.BUDGET_EXCEEDED


def test_too_many_nodes_are_refused_where_they_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "MAX_NODES", 1000)
    monkeypatch.setattr(budget, "MAX_DENSE_NODES", 900)
    assert findings("[" + "\n1," * 999 + "]") == []
    assert findings("[" + "\n1," * 1000 + "]") == [("NT004", 1001, 1)]


def test_text_of_the_document_does_not_count_as_repeated_by_aliases() -> None:
    text = "a: &a [x]\nb: [" + ("[" + "1234567," * (MAX_REPEATED_NODES - 1) + "],") * 2 + "]\nc: *a\n"
    assert findings(text) == []


@pytest.mark.parametrize("number", ["9" * 100_000, "1:" * 100_000 + "1", "0x" + "f" * 100_000])
def test_a_number_of_any_length_costs_nothing(number: str) -> None:
    assert findings(f"a: {number}") == [("NT005", 1, 4)]


def test_the_deepest_that_is_read_can_be_walked() -> None:
    text = "[" * 100 + "]" * 100
    assert str(data(text)) == text


def test_a_value_has_the_places_of_its_templates() -> None:
    text = 'url: "{{ a }}/x"\ncode: "{{ no }}"\nlist:\n  - plain\n  - {"a/b~": "x {% if b %}"}\n5: 1\n'
    root, _ = read(SourceFile("p.yaml", text))
    assert root is not None
    value = value_of(root, "/config", literal_pointers={"/config/code"})
    assert value.data == {"url": "{{ a }}/x", "code": "{{ no }}", "list": ["plain", {"a/b~": "x {% if b %}"}], "5": 1}
    assert value.templates == {
        "/config/url": Span(1, 7, 1, 14),
        "/config/list/1/a~1b~0": Span(5, 17, 5, 27),
    }


def test_a_number_is_never_a_template() -> None:
    root, _ = read(SourceFile("p.yaml", "a: 1"))
    assert isinstance(root, MappingNode)
    node = root.get("a")
    assert isinstance(node, ScalarNode)
    assert (node.value, node.text, node.template_span, root.get("b")) == (1, "1", None, None)


def test_a_collection_ends_with_its_last_item() -> None:
    source = SourceFile("p.yaml", "a:\n  - 1\n  - 2\n\n# comment\nb: {c: 1}\n")
    root, _ = read(source)
    assert isinstance(root, MappingNode)
    assert [source.slice(node.span) for _, node in root.entries] == ["- 1\n  - 2", "{c: 1}"]


def test_a_file_is_read_without_its_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_bytes("\ufeffa: é\n".encode())
    source, diagnostics = read_file(path)
    assert (source.text, diagnostics) == ("a: é\n", [])


@pytest.mark.parametrize("content", [b"a: 1\nb: \xff\n", b"\x00\x01\xfe", "é".encode("utf-16")])
def test_invalid_utf_8_is_a_finding(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "p.yaml"
    path.write_bytes(content)
    _, diagnostics = read_file(path)
    assert [diagnostic.code for diagnostic in diagnostics] == [Code.UNREADABLE_FILE]


def test_no_file_and_no_plain_file_are_findings(tmp_path: Path) -> None:
    for path in (tmp_path / "missing.yaml", tmp_path, tmp_path / "a\0b"):
        source, diagnostics = read_file(path)
        assert source.text == ""
        assert [diagnostic.code for diagnostic in diagnostics] == [Code.UNREADABLE_FILE]


def test_a_file_that_is_too_long_is_refused_when_read(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text("é" * (MAX_BYTES // 2 + 1), encoding="utf-8")
    source, diagnostics = read_file(path)
    assert not diagnostics
    _, (diagnostic,) = read(source)
    assert diagnostic.code is Code.BUDGET_EXCEEDED


def test_without_libyaml_the_reading_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "a: &x [1, 'é {{ b }}']\nb: |\n  {{ c }}\n  d\nc: {<<: {k: 1}, on: *x}\nd: !!str\n  2\na: 1\n"
    fast = read(SourceFile("p.yaml", text))
    monkeypatch.delattr(yaml, "CSafeLoader")
    slow = read(SourceFile("p.yaml", text))
    assert fast[0] is not None
    assert slow[0] is not None
    assert value_of(slow[0]) == value_of(fast[0])
    assert slow[1] == fast[1]
    assert findings("a: 'x") == [("NT002", 1, 4)]
    assert findings("[" * 5000) == [("NT004", 1, 101)]


def test_floats_are_finite() -> None:
    assert math.isfinite(data("a: 1.7e+308")["a"])


def test_a_text_that_no_yaml_can_hold_is_refused_with_aliases_too() -> None:
    diagnostics = compile_text("a: &a [x]\nb: *a\nc: \ud800\n").diagnostics
    assert [diagnostic.code for diagnostic in diagnostics] == [Code.YAML_SYNTAX]


def test_a_missing_ending_is_hinted_at(tmp_path: Path) -> None:
    (tmp_path / "pull.yaml").write_text("a: 1")
    (tmp_path / "push.yml").write_text("a: 1")
    hints = {name: read_file(tmp_path / name)[1][0].hint for name in ("pull", "push", "other")}
    assert hints == {
        "pull": f'did you mean "{tmp_path}/pull.yaml"?',
        "push": f'did you mean "{tmp_path}/push.yml"?',
        "other": "give the path of a YAML file saved as UTF-8",
    }
