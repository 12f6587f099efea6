from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from noetl_compiler import compile_or_raise
from noetl_compiler.diagnostics import columns
from noetl_compiler.graph import Arc, Graph, Json, Loop, Route, SourceRef, Span, Step, Task, Template, Value, seal
from noetl_compiler.preview import mermaid, tree
from noetl_compiler.preview.calls import summarise_call
from noetl_compiler.preview.phrases import duration_in_words

PLAYBOOK = """
apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: etl, path: examples/etl}
workload: {pages: 3}
workflow:
  - step: start
    desc: Fetch it
    loop:
      in: "{{ workload.endpoints }}"
      iterator: endpoint
      spec: {mode: parallel, max_in_flight: 2}
    tool:
      - name: fetch
        kind: http
        url: "{{ iter.endpoint }}"
        spec:
          policy:
            rules:
              - when: "{{ output.error.retryable }}"
                then: {do: retry, attempts: 3, delay: 0.5, backoff: exponential}
              - when: "{{ output.status == 'error' }}"
                then: {do: fail}
              - else: {then: {do: continue}}
      - name: again
        kind: noop
        spec:
          policy:
            rules:
              - when: "{{ iter.more }}"
                then: {do: jump, to: fetch, set: {iter.page: 2}}
              - else: {then: {do: break}}
    next:
      arcs:
        - step: store
          when: "{{ event.name == 'loop.done' }}"
        - step: end
          set: {ctx.empty: true}
  - step: store
    tool: {kind: postgres, auth: pg_local, command: select 1}
    set: {ctx.rows: "{{ output.data.rows }}"}
    next:
      arcs:
        - step: end
"""

TREE = """\
etl (examples/etl): 3 steps, dialect v10
starts at start, ends at end; an unhandled failure goes to end
task queues: http, noop, postgres
credentials: pg_local

start  Fetch it
├─ for each endpoint in workload.endpoints: parallel, up to 2 at once
├─ fetch [http, at least once] GET iter.endpoint
│  ├─ retry: up to 3 calls, 0.5 s doubling, on a retryable error
│  ├─ fail on error
│  └─ otherwise continue
├─ again [noop]
│  ├─ jump to fetch: set iter.page, when iter.more
│  └─ otherwise leave the step
├─ then -> store
└─ otherwise -> end, set ctx.empty

store
├─ store_task [postgres, exactly once] select 1
├─ set ctx.rows = output.data.rows
└─ then -> end

end (added)  runs when every path has ended

delivery guarantees of calls and rows
├─ at least once: a GET changes nothing on the server, so repeating it does no harm
│  └─ start.fetch
└─ exactly once: if it writes, its transaction stores the outcome in the ledger; at least once for a role that may \
not use the ledger
   └─ store"""

MERMAID = """\
flowchart TD
    n0(["<b>start</b><br/>for each endpoint in workload.endpoints: parallel, up to 2 at once\
<br/>fetch [http]<br/>again [noop]"])
    n1["<b>store</b><br/>store_task [postgres]"]
    n2(["<b>end</b>"])
    n0 --> n1
    n0 -->|"otherwise"| n2
    n1 --> n2"""


@pytest.fixture(scope="module")
def graph() -> Graph:
    return compile_or_raise(PLAYBOOK, file="etl.yaml")


def test_a_tree_reads_like_the_playbook(graph: Graph) -> None:
    assert tree(graph) == TREE


def test_a_diagram_has_every_step_and_every_route(graph: Graph) -> None:
    assert mermaid(graph) == MERMAID


SPAN = Span(1, 1, 1, 2)


def graph_of(*steps: Step) -> Graph:
    source = SourceRef("p.yaml", "p", "p", "", "v10")
    return seal(Graph(1, "", source, steps[0].name, "end", {step.name: step for step in (*steps, Step("end", SPAN))}))


def test_a_failure_route_and_the_unreached_are_distinguished() -> None:
    step = Step(
        "a",
        SPAN,
        tasks=(Task("t", "http", "gpu", SPAN, idempotent=False),),
        route=Route(
            arcs=(
                Arc("b", SPAN, on_status="ok", when=Template("{{ x > 1 }}", SPAN)),
                Arc("c", SPAN, on_status="error", when=Template("{{ error.code == 1 }}", SPAN)),
            )
        ),
    )
    graph = graph_of(step, Step("b", SPAN), Step("c", SPAN), Step("d", SPAN))
    assert tree(graph).splitlines()[4:-4] == [
        "a",
        "├─ t [http, at most once] on queue gpu",
        "├─ when x > 1 -> b",
        "├─ on failure when error.code == 1 -> c",
        "└─ otherwise -> end",
        "",
        "b",
        "└─ then -> end",
        "",
        "c",
        "└─ then -> end",
        "",
        "d (unreachable)",
        "└─ then -> end",
        "",
        "end",
    ]
    assert '    n0 -.->|"failed when error.code == 1"| n2' in mermaid(graph).splitlines()
    assert '    n0 -->|"otherwise"| n4' in mermaid(graph).splitlines()


def test_the_steps_of_a_loop_are_drawn_in_a_box() -> None:
    entry_route = Route(arcs=(Arc("b", SPAN),))
    loop = Loop(
        "city", SPAN, collection=Value("{{ cities }}", {"": SPAN}), region=("b", "c"), entry_route=entry_route, end="c"
    )
    graph = graph_of(
        Step("a", SPAN, loop=loop, route=Route(arcs=(Arc("d", SPAN),))),
        Step("d", SPAN),
        Step("b", SPAN, route=Route(arcs=(Arc("c", SPAN),))),
        Step("c", SPAN),
    )
    diagram = mermaid(graph)
    assert 'subgraph n0_region["each city"]\n        n1\n        n2\n    end' in diagram
    assert '    n0 -->|"each"| n1' in diagram
    lines = tree(graph).splitlines()
    titles = [line for line in lines if line.strip()[:1].isalpha()][3:]
    assert titles == ["a", "    b (each city)", "    c (each city)", "d", "end"]
    assert [line for line in lines if "each iteration" in line] == [
        "│  ├─ each iteration: then -> b",
        "│  └─ each iteration ends at c",
    ]


@pytest.mark.parametrize("name", ['end"]', "end", "a|b", "<b>", "#35;", "a`b", "日本", "\x1b[2J", "x\ny"])
def test_no_name_breaks_a_preview(name: str) -> None:
    step = Step(name, SPAN, desc=name, route=Route(arcs=(Arc("b", SPAN, when=Template(name, SPAN)),)))
    graph = graph_of(Step("start", SPAN, route=Route(arcs=(Arc(name, SPAN),))), step, Step("b", SPAN))
    assert all(char.isprintable() or char == "\n" for char in tree(graph))
    for line in mermaid(graph).splitlines()[1:]:
        assert re.fullmatch(
            r' +n\d+(?:[(\[{]+"[^"|`]*"[)\]}]+| -\.?->?-?(?:\|"[^"|`]*"\|)? n\d+| -->(?:\|"[^"|`]*"\|)? n\d+)', line
        )


FOLDER = Path(__file__).parents[2] / "dev" / "examples"
EXAMPLES = sorted(set(FOLDER.glob("*.yaml")) - set(FOLDER.glob("*.test.yaml")))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_a_preview_is_the_same_after_a_round_trip(path: Path) -> None:
    graph = compile_or_raise(path.read_text(encoding="utf-8"), file=str(path))
    converted_graph = msgspec.convert(msgspec.to_builtins(graph), Graph)
    assert (tree(converted_graph), mermaid(converted_graph)) == (tree(graph), mermaid(graph))


@pytest.mark.parametrize("width", [40, 80])
def test_a_tree_is_broken_to_the_width_of_a_terminal(graph: Graph, width: int) -> None:
    lines = tree(graph, width).splitlines()
    assert all(columns(line) <= width for line in lines)
    unbroken = " ".join(line.strip("│├└─ ") for line in lines)
    assert unbroken.split() == " ".join(line.strip("│├└─ ") for line in tree(graph).splitlines()).split()


def test_wide_characters_take_two_columns() -> None:
    lines = [line for line in tree(graph_of(Step("a", SPAN, desc="東京 " * 20)), 40).splitlines() if "東京" in line]
    assert len(lines) == 3
    assert all(columns(line) <= 40 for line in lines)


@pytest.mark.parametrize(
    ("kind", "config", "call"),
    [
        ("http", {"url": "http://u:p@x/a?key=1", "method": "post"}, "POST http://x/a"),
        ("http", {"url": "{{ base }}/a?b={{ c }}"}, "GET {{ base }}/a"),
        ("http", {"url": "{{ 'a?b' }}/c"}, "GET {{ 'a?b' }}/c"),
        ("postgres", {"command": "-- why\n/* and */ insert into t(a) values (1)"}, "insert into t"),
        ("postgres", {"query": "select a,\n b from public.t where x = 1"}, "select from public.t"),
        ("duckdb", {"commands": ["ATTACH 'password=1' AS x", "select 1"]}, "ATTACH and 1 more"),
        ("playbook", {"path": "a/b"}, "a/b"),
        ("secrets", {"provider": "gcp", "secret_name": "key"}, "key"),
        ("python", {"code": "result = 1"}, ""),
        ("http", "{{ whole }}", ""),
    ],
)
def test_a_call_is_reported_without_what_may_be_secret(kind: str, config: Json, call: str) -> None:
    assert summarise_call(Task("t", kind, kind, SPAN, config=Value(config))) == call


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (0, "0 s"),
        (0.5, "0.5 s"),
        (90, "90 s"),
        (3600, "1 hour"),
        (9000, "9000 s"),
        (86_400, "1 day"),
        (604_800, "7 days"),
    ],
)
def test_durations_of_whole_hours_and_days_are_shown_as_such(data: float, text: str) -> None:
    assert duration_in_words(Value(data)) == text
