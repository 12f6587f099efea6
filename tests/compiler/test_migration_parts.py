"""The parts of the migration: any document is read as it was written, and no comment is lost or moved into a text."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from noetl_compiler import compile_text
from noetl_compiler.graph import Json, Value
from noetl_compiler.migration import migrate
from noetl_compiler.migration.comments import comments_of
from noetl_compiler.migration.context import MigrationContext
from noetl_compiler.migration.document import emit_document
from noetl_compiler.migration.graph_diff import first_difference, without_spans
from noetl_compiler.migration.source_lookup import NO_SPAN, SourceMapping
from noetl_compiler.migration.write import write
from noetl_compiler.nodes import MappingNode, to_json
from noetl_compiler.reader import read
from noetl_compiler.source import SourceFile

LEGACY = Path(__file__).parent / "migrations" / "legacy_comments.yaml"

TEXTS = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    st.text(" \t\n#:-{}[]'\"\\|>&*!%@`abc1", max_size=20),
    st.sampled_from(
        ["yes", "null", "~", "1", "0x1f", "1e3", "2025-12-01", "<<", "=", "{{ a }}", "- a", "a: b", "#", ""]
    ),
)
NUMBERS = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
DATA: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(TEXTS, DATA, min_size=1, max_size=4))
@example({'"\x85': None})
def test_written_yaml_is_read_back_unchanged(data: dict[str, Json]) -> None:
    nothing = SourceFile("", "")
    document = MappingNode(tuple(SourceMapping(MappingNode((), NO_SPAN)).entries(Value(data))), NO_SPAN)
    text = write(document, nothing)
    second_root, diagnostics = read(SourceFile("", text))
    assert diagnostics == []
    assert second_root is not None
    assert repr(to_json(second_root)) == repr(data)


@pytest.mark.parametrize(
    "text",
    [
        "def f():\n    return 1   \n",
        "\tx\n  y",
        "a\n\n\n",
        "\n\n  a\n",
        "  a\nb\n",
        "SELECT 1;\n\t-- tab\n",
        "a\n \n",
        "é\n☃\n",
    ],
)
def test_a_block_keeps_its_exact_text(text: str) -> None:
    data = {"before": 1, "code": text, "list": [text], "after": {"deep": text, "last": 2}}
    document = MappingNode(tuple(SourceMapping(MappingNode((), NO_SPAN)).entries(Value(data))), NO_SPAN)
    second_root, _ = read(SourceFile("", write(document, SourceFile("", ""))))
    assert second_root is not None
    assert to_json(second_root) == data


def test_code_stays_a_block_whatever_its_spaces() -> None:
    data = {"code": "def f():\n\treturn 1   \n"}
    document = MappingNode(tuple(SourceMapping(MappingNode((), NO_SPAN)).entries(Value(data))), NO_SPAN)
    assert write(document, SourceFile("", "")) == "code: |\n  def f():\n  \treturn 1   \n"


def test_a_hash_in_a_text_is_not_a_comment() -> None:
    text = "\n".join(
        [
            "a: 'x # no' # one",
            'b: "y # no"',
            "c: plain#no # two",
            "d: | # three",
            "  # no",
            "  x # no",
            "# four",
            "e: [1, # five",
            "    '# no']",
            "f: >-",
            "    folded # no",
            "  # six",
        ]
    )
    assert [comment.text for comment in comments_of(SourceFile("", text))] == [
        *("# one", "# two", "# three", "# four", "# five", "# six")
    ]


@given(st.data())
def test_no_comment_is_lost_wherever_it_stands(data: st.DataObject) -> None:
    lines = LEGACY.read_text(encoding="utf-8").splitlines()
    code = lines.index("      # this is Python's comment")
    outside = [number for number, line in enumerate(lines) if line and not code - 1 <= number <= code + 4]
    places = data.draw(st.lists(st.sampled_from(outside), min_size=1, max_size=6, unique=True))
    marked_lines = list(lines)
    for number in sorted(places, reverse=True):
        indent = " " * data.draw(st.integers(0, 8))
        if data.draw(st.booleans()) and "#" not in marked_lines[number]:
            marked_lines[number] += f" # mark {number}"
        else:
            marked_lines.insert(number, f"{indent}# mark {number}")
    before = "\n".join(marked_lines) + "\n"
    text = migrate(SourceFile("", before)).text
    assert text is not None
    kept_texts = [comment.text for comment in comments_of(SourceFile("", text))]
    assert all(any(f"# mark {number}" in comment for comment in kept_texts) for number in places)
    assert migrate(SourceFile("", text)).text == text


def test_a_result_that_means_something_else_is_not_handed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_workload(draft: MigrationContext) -> MappingNode:
        whole = emit_document(draft)
        return MappingNode(tuple(entry for entry in whole.entries if entry[0].text != "workload"), NO_SPAN)

    monkeypatch.setattr("noetl_compiler.migration.emit_document", without_workload)
    result = migrate(SourceFile("", LEGACY.read_text(encoding="utf-8")))
    assert result.text is None
    assert result.defect == "workload.data.base_url"


def test_places_are_all_that_is_not_compared() -> None:
    playbook_text = "metadata: {name: x}\nworkflow:\n  - step: start\n    tool: {kind: noop, message: hello}\n"
    texts = {"a": playbook_text, "b": f"\n{playbook_text}", "c": playbook_text.replace("hello", "hi")}
    graphs = (compile_text(text, file).graph for file, text in texts.items())
    first_graph, moved_graph, other_graph = (without_spans(graph) for graph in graphs if graph)
    assert first_difference(first_graph, moved_graph) == ""
    assert first_difference(first_graph, other_graph) == "steps.start.tasks.0.config.data.message"


CANONICAL = """\
apiVersion: noetl.io/v2
metadata: {name: x}
kind: Playbook
workload: {}
tracing: {enabled: true}
executor:
  profile: local
  spec: {no_next_is_error: false, policy: {limits: {}}}
workflow:
- step: start
  next:
    arcs:
    - {step: end}
    spec: {mode: exclusive}
  loop:
    spec: {mode: parallel, policy: {exec: distributed}, on_error: continue}
    in: [1]
    iterator: item

  tool:
  - kind: noop
    name: first

    input: {}
    spec:
      policy:
        mode: exclusive
        rules:
        - when: "{{ output.status == 'error' }}"
          then: {do: retry, backoff: none, jitter: false, attempts: 2, delay: 1}
        - else:
            then: {do: continue}
- step: end
  tool: {kind: noop, name: end_task}
"""


def test_canonical_files_keep_their_formatting() -> None:
    assert migrate(SourceFile("", CANONICAL)).text == CANONICAL


@pytest.mark.parametrize(
    ("old", "new"),
    [("input: {}", "args: {a: 1}"), ("profile: local", "# mine\n  profile: local"), ("in: [1]", "collection: [1]")],
)
def test_an_older_word_in_v10_changes_its_own_line(old: str, new: str) -> None:
    """Up to how lists are indented, which the first rewriting settles."""
    migrated_text = migrate(SourceFile("", CANONICAL.replace("in: [1]", "items: [1]"))).text or ""
    before = migrated_text.replace(old, new)
    after = migrate(SourceFile("", before)).text or ""
    respelled = new.replace("args", "input").replace("collection", "in")
    assert after == migrated_text.replace(old, respelled)


def test_a_text_with_windows_line_ends_keeps_them() -> None:
    text = LEGACY.read_text(encoding="utf-8")
    unix, windows = (migrate(SourceFile("", version)).text or "" for version in (text, text.replace("\n", "\r\n")))
    assert windows == unix.replace("\n", "\r\n")


LOOKS = """\
metadata: {name: 'x'}
workload:
  'on': "yes"
  single: 'it''s'
  double: "plain"
  escaped: "two\\nlines"
  folded: >-
    a text that is folded because it is rather long for one line, so long that it
    goes on
  template: '{{ payload.x }}'
workflow:
  - step: start
    desc: 'Begin'
    tool:
      kind: python
      args: {a: '{{ workload.single }}'}
      code: |

        print(1)
    next:
      arcs:
        - step: end
          when: '{{ output.status == "ok" }}'
  - step: end
"""


def test_rewritten_values_keep_their_style() -> None:
    text = migrate(SourceFile("", LOOKS)).text or ""
    kept_texts = ["'on': \"yes\"", "single: 'it''s'", 'double: "plain"', 'escaped: "two\\nlines"', "desc: 'Begin'"]
    kept_texts += [
        "folded: >-\n",
        "'{{ payload.x }}'",
        "input: {a: '{{ workload.single }}'}",
        "code: |\n\n        print(1)",
    ]
    kept_texts += ["when: '{{ output.status == \"ok\" }}'", "metadata: {name: 'x'}"]
    assert [comment for comment in kept_texts if comment not in text] == []
