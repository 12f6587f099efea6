"""The JSON Schema of files of playbook tests."""

from __future__ import annotations

from noetl_compiler.language.constructs.playbook_tests import TEST_CONSTRUCTS, TEST_FILE
from noetl_compiler.schema.from_table import model_of
from noetl_compiler.schema.model import Schema
from noetl_compiler.schema.to_json_schema import definitions

__all__ = ["schema_of_tests"]


def schema_of_tests() -> Schema:
    """Return the schema of a file of tests, in draft 7, which all editors support."""
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": "https://noetl.io/schema/playbook-test.json",
        "title": "Tests of a NoETL playbook",
        "$ref": f"#/definitions/{TEST_FILE.name}",
        "definitions": definitions(
            tuple(model_of(construct) for construct in TEST_CONSTRUCTS), accepted_older_names=()
        ),
    }
