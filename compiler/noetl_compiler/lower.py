"""The syntax tree to the graph. Runs only on a tree without errors, so every name resolves.

What the author left open is settled here: where a run enters and where it ends, an ``end`` step when there
is none, a way to it from every step that names no other, and each dialect's defaults.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import UNSET
from msgspec.structs import replace

from noetl_compiler import graph, syntax
from noetl_compiler.framing import unframed_loops
from noetl_compiler.graph import Arc, Graph, Hold, Route, SourceRef, Step, Value
from noetl_compiler.language import defaults
from noetl_compiler.language.names_profile import PROFILES
from noetl_compiler.lowering.cursors import lower_cursor
from noetl_compiler.lowering.endings import Ending, arrival_name, ending_of
from noetl_compiler.lowering.item_routes import with_item_regions
from noetl_compiler.lowering.main_parameters import code_names
from noetl_compiler.lowering.routes import RouteLowering, passed_names, routers_of
from noetl_compiler.lowering.secrets import sinks_of_keychain
from noetl_compiler.lowering.sinks import saving_behind, saving_name
from noetl_compiler.lowering.tasks import lower_tasks
from noetl_compiler.regions import regions_of
from noetl_compiler.syntax_queries import entry_of, final_of, workbook_of
from noetl_compiler.value_merge import overlay

__all__ = ["lower"]


def lower(playbook: syntax.Playbook, file: str) -> Graph:
    """Return the sealed graph of a playbook that was checked."""
    final = final_of(playbook)
    steps = with_item_regions(_Lowering(playbook, final).steps(), final)
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
            names=PROFILES[playbook.dialect],
            priority=playbook.priority or UNSET,
        )
    )


class _Lowering:
    """The steps of one playbook, each at its level: the workflow's, or that of the loop around it."""

    def __init__(self, playbook: syntax.Playbook, final: str) -> None:
        self._playbook = playbook
        self._final = final
        self._workbook = workbook_of(playbook)
        self._secrets = frozenset(entry.name for entry in playbook.keychain)
        self._passed = passed_names(playbook)
        self._code_names = code_names(playbook)
        self._regions = regions_of(playbook, entry_of(playbook), final)
        self._unframed = unframed_loops(playbook)
        self._inside: dict[str, list[syntax.Step]] = {loop: [] for loop in self._regions.ends}
        for step in playbook.steps:
            if (owner := self._regions.owner.get(step.name.text)) is not None:
                self._inside[owner].append(step)
        self._loop_of = {end.name.text: loop for loop, end in self._regions.ends.items()}

    def steps(self) -> dict[str, Step]:
        """Return all steps in the order of the text, each followed by those injected for it."""
        return {lowered.name: lowered for step in self._playbook.steps for lowered in self._lower(step)}

    def _lower(self, step: syntax.Step) -> Iterator[Step]:
        lowered = self._step(step)
        if step.sinks:
            yield from saving_behind(lowered, sinks_of_keychain(step.sinks, self._secrets))
        else:
            yield lowered
        yield from self._route_lowering(step).routers(step)
        if (loop := self._loop_of.get(step.name.text)) is not None:
            yield self._ending(loop, step).arrival

    def _route_lowering(self, step: syntax.Step) -> RouteLowering:
        """Return the lowering of the routes of a step. Those of a loop over steps lead into its region."""
        name = step.name.text
        owner = name if name in self._regions.ends else self._regions.owner.get(name)
        end = self._regions.ends[owner] if owner is not None else None
        last = arrival_name(end) if end else self._final
        return RouteLowering(last, end.name.text if end else "")

    def _step(self, step: syntax.Step) -> Step:
        passed = self._passed.get(step.name.text, Value({}))
        args, result, assigns = overlay(passed, step.args), step.result, step.set
        if (loop := self._loop_of.get(step.name.text)) is not None:
            ending = self._ending(loop, step)
            args, result, assigns = ending.args, ending.result, (*ending.set, *step.set)
        return Step(
            step.name.text,
            step.span,
            step.desc,
            admit=step.admit,
            join=step.join or "wave",
            args=passed if step.loop and step.tasks else args,
            loop=self._loop(step, step.loop) if step.loop else None,
            tasks=lower_tasks(step, args, self._playbook, self._workbook, self._secrets, self._code_names),
            set=assigns,
            result=result,
            route=self._route(step),
            timeout=step.timeout,
            hold=_hold(step.on_failure or self._playbook.on_failure),
            status=UNSET if step.status is None else step.status,
            enter=step.enter,
            failure=step.failure,
        )

    def _ending(self, loop: str, end: syntax.Step) -> Ending:
        return ending_of(loop, end, self._passed.get(end.name.text, Value({})))

    def _route(self, step: syntax.Step) -> Route:
        """Return the successors of a step. A loop over steps leads to its end, whatever its outcome; its own routes
        lead into its region.
        """
        if (end := self._regions.ends.get(step.name.text)) is not None:
            return Route(arcs=(Arc(end.name.text, step.span, "any"),))
        ends_run = step.next is None and step.name.text == self._final
        return Route() if ends_run else self._route_lowering(step).route(step)

    def _loop(self, step: syntax.Step, loop: syntax.Loop) -> graph.Loop:
        if step.name.text in self._unframed:
            loop = replace(loop, body=replace(loop.body, frame=None))
        lowered, end = _lower_loop(loop), self._regions.ends.get(step.name.text)
        if end is None:
            return replace(lowered, enter=self._route_lowering(step).item_route(step))
        names = [name for one in self._inside[step.name.text] for name in (one.name.text, *self._injected(one))]
        region = (*names, *routers_of(step), arrival_name(end))
        return replace(lowered, region=region, enter=self._route_lowering(step).route(step), end=arrival_name(end))

    def _injected(self, step: syntax.Step) -> Iterator[str]:
        """Yield the names of the steps that are injected for a step of a region, at the level of that step."""
        if step.sinks:
            yield saving_name(step.name.text)
        if step.name.text not in self._regions.ends:
            yield from routers_of(step)


def _hold(on_failure: syntax.OnFailure | None) -> Hold | None:
    if on_failure is None or on_failure.action == "fail":
        return None
    return Hold(on_failure.seconds or Value(defaults.HOLD_SECONDS), on_failure.span)


def _lower_loop(loop: syntax.Loop) -> graph.Loop:
    body = loop.body
    if body.mode == "parallel" and body.max_in_flight is None:
        body = replace(body, max_in_flight=Value(defaults.IN_FLIGHT))
    if body.frame is not None:
        body = replace(body, frame=_lower_frame(body.frame))
    if body.cursor is not None:
        body = replace(body, cursor=lower_cursor(body.cursor))
    return body


def _lower_frame(frame: graph.Frame) -> graph.Frame:
    values = {name: getattr(frame, name) or Value(default) for name, default in defaults.FRAME.items()}
    return graph.Frame(frame.span, **values)
