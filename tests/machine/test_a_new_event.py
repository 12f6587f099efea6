"""An event that the machine emits needs a row in the registry of names: the second diff of dev/decisions/0065."""

from __future__ import annotations

from pathlib import Path

from tests.page_diffs import answers_after, diffs_of

_, EVENT = diffs_of("dev/decisions/0065-adding-a-check-and-an-event.md")

ASK = """
import json
from importlib.resources import files
from noetl_compiler import compile_or_raise
from noetl_temporal.machine.commands import Emit
from noetl_temporal.machine.facts import Started
from noetl_temporal.machine.playbook import PlaybookMachine

text = '''apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: x}
workload: {items: ITEMS}
workflow:
  - step: each
    loop: {in: "{{ workload.items }}", iterator: item}
    tool: {kind: noop}
'''

def types(items):
    machine = PlaybookMachine(compile_or_raise(text.replace("ITEMS", items)), execution_id=1)
    return [one.event.type for one in machine.feed(Started(1_000)) if isinstance(one, Emit)]

registry = files("noetl_temporal.mirror").joinpath("sql/0002_views.sql").read_text()
print(json.dumps({"empty": types("[]"), "one": types("[1]"), "registered": "'loop.empty'" in registry}))
"""


def test_it_is_emitted_and_registered(tmp_path: Path) -> None:
    answers = answers_after(tmp_path, ["compiler", "activities", "noetl_temporal"], ASK, EVENT)
    assert answers["empty"].count("loop.empty") == 1
    assert "loop.empty" not in answers["one"]
    assert answers["registered"]
