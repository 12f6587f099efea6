"""dev/extensions.md explains every extension with an example that is canonical and uses it."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import indent

import pytest

from noetl_compiler.migration import migrate
from noetl_compiler.migration.extensions import EXTENSIONS, written_extensions
from noetl_compiler.nodes import MappingNode
from noetl_compiler.phases import parse_playbook
from noetl_compiler.source import SourceFile

PAGE = Path(__file__).parents[2] / "dev" / "extensions.md"
SECTION = re.compile(r"^## ([^\n]+)\n\n(.+?)```yaml\n(.*?)```", re.MULTILINE | re.DOTALL)
HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata:\n  name: example\nworkflow:\n"
SECTIONS = {name: example for name, _, example in SECTION.findall(PAGE.read_text(encoding="utf-8"))}


def test_every_extension_is_explained() -> None:
    assert SECTIONS.keys() == {extension.path for extension in EXTENSIONS}


@pytest.mark.parametrize("name", SECTIONS)
def test_an_example_is_canonical_and_uses_the_extension(name: str) -> None:
    example = SECTIONS[name]
    text = HEAD + indent(example, "  ") if example.startswith("- ") else example
    source = SourceFile("example.yaml", text)
    assert migrate(source).text == text
    root = parse_playbook(source).root
    assert isinstance(root, MappingNode)
    assert name in {extension.path for extension in written_extensions(root)}
