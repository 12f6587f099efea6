"""The syntax tree to the graph. Runs only on a tree without errors, so every name resolves.

What the author left open is settled here: where a run enters and where it ends, an ``end`` step when there
is none, a way to it from every step that names no other, and each dialect's defaults.
"""

from __future__ import annotations

from msgspec.structs import replace

from noetl_compiler import graph, syntax
from noetl_compiler.graph import Graph, Route, SourceRef, Step, Value
from noetl_compiler.lower_routes import bound_args, lower_routes, routers
from noetl_compiler.lower_tasks import lower_tasks, workbook_of
from noetl_compiler.overlay import overlay

__all__ = ["DEFAULT_IN_FLIGHT", "END", "entry_of", "final_of", "lower"]

END = "end"
DEFAULT_IN_FLIGHT = 16


def lower(playbook: syntax.Playbook, file: str) -> Graph:
    """The sealed graph of a playbook that was checked."""
    final, steps = final_of(playbook), dict[str, Step]()
    for step in playbook.steps:
        steps[step.name.text] = _lower_step(step, playbook, final)
        for router in routers(step):
            steps[router.name] = router
    if final not in steps:
        steps[final] = Step(final, playbook.span, "runs when every path has ended", injected=True)
    return graph.seal(
        Graph(
            version=graph.VERSION,
            digest="",
            source=SourceRef(file, playbook.path, playbook.name, playbook.version, playbook.dialect),
            entry=entry_of(playbook),
            final=final,
            steps=steps,
            workload=playbook.workload,
            keychain=playbook.keychain,
            failure=playbook.failure or "best_effort",
            timeout=playbook.timeout,
        )
    )


def entry_of(playbook: syntax.Playbook) -> str:
    """Where a run begins: the executor's entry step, else ``start``, else the first step."""
    if playbook.entry:
        return playbook.entry.text
    names = [step.name.text for step in playbook.steps]
    return "start" if "start" in names else names[0]


def final_of(playbook: syntax.Playbook) -> str:
    """Where all paths meet: the executor's final step, else ``end`` in any case of letters."""
    if playbook.final:
        return playbook.final.text
    names = (step.name.text for step in playbook.steps)
    return next((name for name in names if name.lower() == END), END)


def _lower_step(step: syntax.Step, playbook: syntax.Playbook, final: str) -> Step:
    args = overlay(bound_args(step.name.text, playbook), step.args)
    return Step(
        step.name.text,
        step.span,
        step.desc,
        admit=step.admit,
        join=step.join or "wave",
        args=args if step.loop is None else Value({}),
        loop=_lower_loop(step.loop) if step.loop else None,
        tasks=lower_tasks(step, args, playbook.dialect, workbook_of(playbook)),
        set=step.set,
        result=step.result,
        route=lower_routes(step, final) if step.next or step.name.text != final else Route(),
        timeout=step.timeout,
    )


def _lower_loop(loop: syntax.Loop) -> graph.Loop:
    if loop.body.mode == "parallel" and loop.body.max_in_flight is None:
        return replace(loop.body, max_in_flight=Value(DEFAULT_IN_FLIGHT))
    return loop.body
