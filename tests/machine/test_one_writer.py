"""A pipeline's state is changed by the pipeline's own class and its base alone, so that its path is easy to follow."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from noetl_temporal import machine
from noetl_temporal.machine.state import PipelineState, TaskProgress

FOLDER = Path(machine.__path__[0])
PIPELINE = {FOLDER / "tasks" / "pipeline.py", FOLDER / "tasks" / "task_executions.py"}
OTHERS = [FOLDER / "engine.py", *sorted(set((FOLDER / "tasks").glob("*.py")) - PIPELINE)]
OWNERS = ("state", "_state", "pipeline", "task", "progress")
FIELDS = {*PipelineState.__struct_fields__, *TaskProgress.__struct_fields__}


def written_names(source: str) -> Iterator[str]:
    """The fields of a pipeline's state that a module assigns to."""
    for node in ast.walk(ast.parse(source)):
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AugAssign) else []
        )
        for target in (
            target
            for target_group in targets
            for target in (target_group.elts if isinstance(target_group, ast.Tuple) else [target_group])
        ):
            if isinstance(target, ast.Attribute) and target.attr in FIELDS:
                owner = target.value
                name = (
                    owner.attr if isinstance(owner, ast.Attribute) else owner.id if isinstance(owner, ast.Name) else ""
                )
                if name in OWNERS and ast.unparse(owner) != "self.state":  # an engine's own state is another
                    yield target.attr


@pytest.mark.parametrize("path", OTHERS, ids=lambda path: path.stem)
def test_only_the_pipeline_changes_its_state(path: Path) -> None:
    assert list(written_names(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    "line",
    [
        "pipeline.phase = 'ready'",
        "self._state.last_success = 1",
        "a, state.progress.page = 1, 2",
        "pipeline.state.progress.earlier_calls += 1",
    ],
)
def test_a_change_elsewhere_is_found(line: str) -> None:
    assert len(list(written_names(line))) == 1
