"""The page dev/corpus.md says what becomes of every playbook that upstream wrote."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import Severity
from tests.compiler.upstream import CORPUS, Upstream, upstream

pytestmark = pytest.mark.skipif(not CORPUS.is_dir(), reason="../shared/corpus is not here")

PAGE = Path(__file__).parents[2] / "dev" / "corpus.md"
DIALECTS = {
    "v1-type": "v1",
    "legacy-tool-string": "legacy",
    "v2-tool.kind+case": "case",
    "v2-tool.kind": "v2 without case",
    "v10-outcome": "v10, first spelling",
    "v10-output": "v10, second spelling",
    "v10-neutral": "v10, either spelling",
}
INTRODUCTION = """\
# The corpus

What the compiler makes of the {total} playbooks that upstream published from May 2025 on: {compiled} have a graph,
{refused} are refused. Written by `pytest tests/compiler/test_corpus_table.py --update-goldens`, and compared by the
same test where the corpus lies beside this repository.
"""


def table(heads: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    heads = tuple(heads)
    lines = [heads, tuple("-" for _ in heads), *rows]
    return "".join(f"| {' | '.join(str(cell) for cell in line)} |\n" for line in lines)


def by_era(playbooks: tuple[Upstream, ...]) -> str:
    """``compiled of all`` for every era and dialect."""
    rows = [("**all**", *(_share(playbooks, None, dialect) for dialect in DIALECTS), _share(playbooks, None, None))]
    for era in sorted({playbook.era for playbook in playbooks}):
        cells = (_share(playbooks, era, dialect) for dialect in DIALECTS)
        rows.append((era, *cells, _share(playbooks, era, None)))
    return table(("era", *DIALECTS.values(), "all"), rows)


def _share(playbooks: tuple[Upstream, ...], era: str | None, dialect: str | None) -> str:
    selection = [
        playbook for playbook in playbooks if era in (None, playbook.era) and dialect in (None, playbook.dialect)
    ]
    compiled_count = sum(answer.result.graph is not None for answer in selection)
    return f"{compiled_count} of {len(selection)}" if selection else ""


def refusals(playbooks: tuple[Upstream, ...]) -> str:
    rows = [
        (f"`{playbook.path}:{diagnostic.span.line}:{diagnostic.span.col}`", diagnostic.code.value, diagnostic.message)
        for playbook in playbooks
        for diagnostic in playbook.result.diagnostics
        if diagnostic.severity is Severity.ERROR
    ]
    return table(("place", "code", "reason"), rows)


def unsupported_kinds(playbooks: tuple[Upstream, ...]) -> str:
    rows = [
        (
            f"`{playbook.path}:{diagnostic.span.line}:{diagnostic.span.col}`",
            diagnostic.message.partition(":")[0],
            diagnostic.hint,
        )
        for playbook in playbooks
        for diagnostic in playbook.result.diagnostics
        if diagnostic.code is Code.NO_EXECUTOR
    ]
    return table(("place", "what cannot run", "why, and what to use instead"), rows)


def findings(playbooks: tuple[Upstream, ...]) -> str:
    total: Counter[Code] = Counter()
    files: Counter[Code] = Counter()
    for playbook in playbooks:
        codes = [diagnostic.code for diagnostic in playbook.result.diagnostics]
        total.update(codes)
        files.update(set(codes))
    rows = [
        (f"[{code.value}](../{code.docs})", code.meaning, total[code], files[code])
        for code in sorted(total, key=lambda code: code.value)
    ]
    return table(("code", "meaning", "findings", "files"), rows)


def test_the_page_lists_the_outcome_of_every_playbook(golden: Callable[[Path, str], None]) -> None:
    playbooks = upstream()
    compiled_count = sum(playbook.result.graph is not None for playbook in playbooks)
    head = INTRODUCTION.format(total=len(playbooks), compiled=compiled_count, refused=len(playbooks) - compiled_count)
    parts = (
        f"## Graphs by era and dialect\n\n{by_era(playbooks)}",
        f"## What is refused, and why\n\n{refusals(playbooks)}",
        f"## What has a graph and does not run, and why\n\n{unsupported_kinds(playbooks)}",
        f"## What is found\n\nErrors and warnings alike.\n\n{findings(playbooks)}",
    )
    golden(PAGE, "\n".join((head, *parts)))


def test_every_dialect_has_a_column() -> None:
    assert {playbook.dialect for playbook in upstream()} == set(DIALECTS)
