"""Convert the syntax tree to the graph. The tree has no errors, so every name resolves.

Lowering makes explicit what the playbook leaves implicit: the first and the final step, an injected ``end`` step if
there is none, a route to it from every step without ``next``, and the defaults of each dialect.
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
from noetl_compiler.lowering.endings import Ending, arrival_name, lower_ending
from noetl_compiler.lowering.item_routes import with_item_regions
from noetl_compiler.lowering.main_parameters import code_names
from noetl_compiler.lowering.routes import RouteLowering, passed_names, routers_of
from noetl_compiler.lowering.secrets import resolve_keychain_sinks
from noetl_compiler.lowering.sinks import saving_step_name, with_saving_step
from noetl_compiler.lowering.tasks import lower_tasks
from noetl_compiler.regions import regions_of
from noetl_compiler.syntax_queries import entry_name_of, final_name_of, workbook_of
from noetl_compiler.value_merge import overlay

__all__ = ["lower"]


def lower(playbook: syntax.Playbook, file: str) -> Graph:
    """Return the sealed graph of a playbook whose checks found no error."""
    final = final_name_of(playbook)
    steps = with_item_regions(_Lowering(playbook, final).steps(), final)
    if final not in steps:
        steps[final] = Step(final, playbook.span, "runs when every path has ended", injected=True)
    return graph.seal(
        Graph(
            version=graph.VERSION,
            digest="",
            source=SourceRef(file, playbook.path, playbook.name, playbook.version, playbook.dialect),
            entry=entry_name_of(playbook),
            final=final,
            steps=steps,
            workload=playbook.workload,
            keychain=playbook.keychain,
            branch_failure=playbook.branch_failure or "best_effort",
            timeout=playbook.timeout,
            names=PROFILES[playbook.dialect],
            priority=playbook.priority or UNSET,
        )
    )


class _Lowering:
    """Lowers the steps of one playbook, each at its level: that of the workflow, or that of the innermost loop that
    repeats it.
    """

    def __init__(self, playbook: syntax.Playbook, final: str) -> None:
        self._playbook = playbook
        self._final = final
        self._workbook = workbook_of(playbook)
        self._keychain_names = frozenset(entry.name for entry in playbook.keychain)
        self._passed_values = passed_names(playbook)
        self._code_names = code_names(playbook)
        self._regions = regions_of(playbook, entry_name_of(playbook), final)
        self._loops_without_frame = unframed_loops(playbook)
        self._region_steps: dict[str, list[syntax.Step]] = {loop: [] for loop in self._regions.ends}
        for step in playbook.steps:
            if (loop := self._regions.innermost_loop.get(step.name.text)) is not None:
                self._region_steps[loop].append(step)
        self._loops_by_end = self._regions.loops_by_end

    def steps(self) -> dict[str, Step]:
        """Return all steps in the order of the text, each followed by those injected for it."""
        return {
            lowered_step.name: lowered_step
            for step in self._playbook.steps
            for lowered_step in self._lower_with_injected(step)
        }

    def _lower_with_injected(self, step: syntax.Step) -> Iterator[Step]:
        lowered_step = self._lower_step(step)
        if step.sinks:
            yield from with_saving_step(lowered_step, resolve_keychain_sinks(step.sinks, self._keychain_names))
        else:
            yield lowered_step
        yield from self._route_lowering(step).routers(step)
        if (loop := self._loops_by_end.get(step.name.text)) is not None:
            yield self._lower_ending_of(loop, step).arrival

    def _route_lowering(self, step: syntax.Step) -> RouteLowering:
        """Return the RouteLowering for the level of a step's targets. A loop over steps routes into its region."""
        name = step.name.text
        loop = name if name in self._regions.ends else self._regions.innermost_loop.get(name)
        if loop is None:
            return RouteLowering(self._final, "")
        end = self._regions.ends[loop]
        return RouteLowering(arrival_name(end), end.name.text)

    def _lower_step(self, step: syntax.Step) -> Step:
        passed_values = self._passed_values.get(step.name.text, Value({}))
        args, result, assigns = overlay(passed_values, step.args), step.result, step.set
        if (loop := self._loops_by_end.get(step.name.text)) is not None:
            ending = self._lower_ending_of(loop, step)
            args, result, assigns = ending.args, ending.result, (*ending.set, *step.set)
        return Step(
            step.name.text,
            step.span,
            step.desc,
            admit=step.admit,
            join=step.join or "wave",
            args=passed_values if step.loop and step.tasks else args,
            loop=self._lower_step_loop(step, step.loop) if step.loop else None,
            tasks=lower_tasks(step, args, self._playbook, self._workbook, self._keychain_names, self._code_names),
            set=assigns,
            result=result,
            route=self._lower_route(step),
            timeout=step.timeout,
            hold=_lower_hold(step.on_failure or self._playbook.on_failure),
            status=UNSET if step.status is None else step.status,
            enter=step.enter,
            branch_failure=step.branch_failure,
        )

    def _lower_ending_of(self, loop: str, end: syntax.Step) -> Ending:
        return lower_ending(loop, end, self._passed_values.get(end.name.text, Value({})))

    def _lower_route(self, step: syntax.Step) -> Route:
        """Return the route of a step. After a loop over steps, its end follows, whatever the outcome of the loop; the
        routes that the author wrote lead into its region.
        """
        if (end := self._regions.ends.get(step.name.text)) is not None:
            return Route(arcs=(Arc(end.name.text, step.span, "any"),))
        ends_run = step.next is None and step.name.text == self._final
        return Route() if ends_run else self._route_lowering(step).route(step)

    def _lower_step_loop(self, step: syntax.Step, loop: syntax.Loop) -> graph.Loop:
        if step.name.text in self._loops_without_frame:
            loop = replace(loop, body=replace(loop.body, frame=None))
        lowered_loop, end = _lower_loop(loop), self._regions.ends.get(step.name.text)
        if end is None:
            return replace(lowered_loop, entry_route=self._route_lowering(step).item_route(step))
        names = [
            name
            for inner in self._region_steps[step.name.text]
            for name in (inner.name.text, *self._injected_names(inner))
        ]
        region = (*names, *routers_of(step), arrival_name(end))
        return replace(
            lowered_loop, region=region, entry_route=self._route_lowering(step).route(step), end=arrival_name(end)
        )

    def _injected_names(self, step: syntax.Step) -> Iterator[str]:
        """Yield the names of the steps that are injected for a step of a region, at the level of that step."""
        if step.sinks:
            yield saving_step_name(step.name.text)
        if step.name.text not in self._regions.ends:
            yield from routers_of(step)


def _lower_hold(on_failure: syntax.OnFailure | None) -> Hold | None:
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
