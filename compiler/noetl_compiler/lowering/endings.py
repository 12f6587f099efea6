"""The end of a loop over steps as the two steps that it is.

``end_loop: cities, result: {...}`` happens at every arrival in an iteration, and once after the last. So it becomes an
injected step *inside* of the region, which renders what is asked of the iteration, and the end itself *behind* the
loop, which renders what is asked of ``<loop>_results``. A name rendered at the arrivals is a list there, of what every
arrival left. What the end renders is published in ``ctx``, where the steps after it read it by its bare name.
"""

from __future__ import annotations

import re

import msgspec

from noetl_compiler import syntax
from noetl_compiler.graph import Assign, Route, Span, Step, Value
from noetl_compiler.graph.contents import pointer, templates_in
from noetl_compiler.language.names import ALL_RESULTS, WORKLOAD, WORKLOAD_DEFAULTS, results_name
from noetl_compiler.templating.check import examine
from noetl_compiler.value_merge import names_in, overlay, picked

__all__ = ["Ending", "arrival_name", "ending_of"]

_NO_NAME = re.compile(r"\W")
_OF_THE_RUN = (WORKLOAD_DEFAULTS | WORKLOAD) - {"now", "keychain"}
"""Names that every iteration shares, so a result that reads no other is rendered once."""


class Ending(msgspec.Struct, frozen=True):
    """The lowered end of a loop over steps.

    ``arrival`` is inside of the region. ``args``, ``result`` and ``set`` are those of the end itself.
    """

    arrival: Step
    args: Value
    result: Value
    set: tuple[Assign, ...]


def arrival_name(end: syntax.Step) -> str:
    """Return the step inside of the region at which its paths end."""
    return f"{_NO_NAME.sub('_', end.name.text)}/arrival"


def ending_of(loop: str, end: syntax.Step, passed: Value) -> Ending:
    """Split the end of a loop; ``passed`` are the names that the routes to it bind."""
    requested = end.result if end.result is not None else _all_results(loop, end.span)
    left = _names_at_arrivals(requested, {results_name(loop), ALL_RESULTS})
    arrival = Step(
        arrival_name(end),
        end.span,
        injected=True,
        join="each",
        args=overlay(passed, end.args),
        result=picked(requested, left) if left else None,
        route=Route(on_no_match="quiet"),
    )
    result = overlay(requested, _templates({name: f"{{{{ {name} }}}}" for name in left}, end.span))
    return Ending(arrival, _closing_args(loop, end, left), result, _as_ctx(end, result))


def _all_results(loop: str, span: Span) -> Value:
    return _templates({"results": f"{{{{ {results_name(loop)} }}}}"}, span)


def _names_at_arrivals(asked: Value, results: set[str]) -> list[str]:
    """The names that are rendered at each arrival: those that read what differs there, and nothing of the end."""
    reads = {name: _heads(picked(asked, [name])) for name in names_in(asked)}
    return sorted(
        name
        for name, heads in reads.items()
        if heads - _OF_THE_RUN and not heads & results and not heads & (reads.keys() - {name})
    )


def _heads(value: Value) -> set[str]:
    return {path.partition(".")[0] for one in templates_in(value) for path in examine(one.source).reads}


def _closing_args(loop: str, end: syntax.Step, left: list[str]) -> Value:
    """The names that the end sees: the iterations' results, and by name what the arrivals left."""
    results = f"results[{loop!r}]"
    arrivals = f"{results} | map(attribute={arrival_name(end)!r}) | select('defined') | sum(start=[])"
    names = {results_name(loop): f"{{{{ {results} }}}}", ALL_RESULTS: f"{{{{ {results} }}}}"}
    names |= {name: f"{{{{ {arrivals} | map(attribute={name!r}) | list }}}}" for name in left}
    return _templates(names, end.span)


def _as_ctx(end: syntax.Step, result: Value) -> tuple[Assign, ...]:
    own = f"results[{end.name.text!r}]"
    sources = {name: f"{{{{ {own}[{name!r}] }}}}" for name in names_in(result)}
    return tuple(Assign(f"ctx.{name}", Value(source, {"": end.span}), end.span) for name, source in sources.items())


def _templates(sources: dict[str, str], span: Span) -> Value:
    return Value(dict(sources), {pointer("", name): span for name in sources})
