"""The playbooks that upstream wrote. They are read where they lie beside this repository, and skipped elsewhere."""

from __future__ import annotations

from collections import Counter

import pytest

from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import Severity
from tests.compiler.upstream import CORPUS, upstream

pytestmark = pytest.mark.skipif(not CORPUS.is_dir(), reason="../shared/corpus is not here")

DIALECTS = (
    "v1-type",
    "legacy-tool-string",
    "v2-tool.kind+case",
    "v2-tool.kind",
    "v10-neutral",
    "v10-output",
    "v10-outcome",
)
_SEP_30 = "noetl@2025-09-30/tests/fixtures/playbooks"
_DEC_10 = "noetl@2025-12-10/tests/fixtures/playbooks"
_DEC_12 = "noetl@2025-12-12/tests/fixtures/playbooks"
_DEC_17 = "noetl@2025-12-17/tests/fixtures/playbooks"
_JAN_31 = "noetl@2026-01-31/tests/fixtures/playbooks"
TRULY_REFUSED = {
    # a way to a step that has another name
    f"{_SEP_30}/postgres_save_simple.yaml": {Code.UNKNOWN_STEP},
    # a second "env" under the container: its values would silently replace the first
    f"{_DEC_10}/container_postgres_init/container_postgres_init.yaml": {Code.DUPLICATE_KEY},
    # two steps of one name: the second could never be reached
    f"{_DEC_17}/v2_http_test.yaml": {Code.DUPLICATE_STEP},
    f"{_JAN_31}/v2_http_test.yaml": {Code.DUPLICATE_STEP},
    # the same key twice in one mapping, with values that differ: two descriptions, two codes, two inputs
    f"{_DEC_12}/data_processing/wikipedia_processing/wikipedia_processing.yaml": {Code.DUPLICATE_KEY},
    f"{_JAN_31}/data_processing/wikipedia_processing/wikipedia_processing.yaml": {Code.DUPLICATE_KEY},
    f"{_JAN_31}/data_transfer/http_to_postgres_simple/http_to_postgres_simple.yaml": {Code.DUPLICATE_KEY},
    f"{_JAN_31}/pagination/max_iterations/test_pagination_max_iterations.yaml": {
        Code.DUPLICATE_KEY,
        Code.PYTHON_SYNTAX,
    },
    # code that no Python runs: escaped quotes in a block, lines that are indented by chance, YAML in the middle of it
    f"{_DEC_12}/playbook_composition/user_profile_scorer.yaml": {Code.PYTHON_SYNTAX},
    f"{_DEC_12}/save_storage_test/save_all_storage_types.yaml": {Code.PYTHON_SYNTAX},
    f"{_DEC_12}/vars_test/test_vars_cache.yaml": {Code.PYTHON_SYNTAX},
    f"{_JAN_31}/pagination/offset/test_pagination_offset.yaml": {Code.PYTHON_SYNTAX},
}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_file_compiles_or_is_truly_refused(dialect: str) -> None:
    rejected = {
        playbook.path: {
            diagnostic.code for diagnostic in playbook.result.diagnostics if diagnostic.severity is Severity.ERROR
        }
        for playbook in upstream()
        if playbook.dialect == dialect and playbook.result.graph is None
    }
    of_dialect = {playbook.path for playbook in upstream() if playbook.dialect == dialect}
    assert rejected == {path: codes for path, codes in TRULY_REFUSED.items() if path in of_dialect}


def test_every_dialect_of_the_corpus_is_looked_at() -> None:
    assert {playbook.dialect for playbook in upstream()} == set(DIALECTS)


def test_no_file_has_an_unknown_key() -> None:
    code_counts = Counter(finding.code for diagnostic in upstream() for finding in diagnostic.result.diagnostics)
    assert code_counts[Code.UNKNOWN_KEY] == 0
