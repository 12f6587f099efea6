"""Split the end of a loop over steps into two steps.

A step with ``end_loop: cities`` and a result runs whenever a branch of an iteration arrives at it, and once after the
last iteration. So it becomes two steps: an injected one *inside* the region, which renders the parts of the result that
read the iteration, and the end itself *after* the loop, which renders the parts that read ``<loop>_results``. For the
end, a part rendered at the arrivals is a list with one value per arrival. The result of the end is also set in ``ctx``,
where later steps read its parts by their names.
"""

from __future__ import annotations

import re

import msgspec

from noetl_compiler import syntax
from noetl_compiler.graph import Assign, Route, Span, Step, Value
from noetl_compiler.graph.contents import templates_in
from noetl_compiler.language.names import ALL_RESULTS, WORKLOAD, WORKLOAD_DEFAULTS, results_name
from noetl_compiler.lowering.expressions import template_mapping
from noetl_compiler.templating.analysis import analyse_template
from noetl_compiler.value_merge import mapping_of, overlay, select_names

__all__ = ["Ending", "arrival_name", "lower_ending"]

_NON_WORD = re.compile(r"\W")
_RUN_NAMES = (WORKLOAD_DEFAULTS | WORKLOAD) - {"now", "keychain"}
"""Names with the same value in all iterations: a result that reads only these is rendered once."""


class Ending(msgspec.Struct, frozen=True):
    """The lowered end of a loop over steps.

    ``arrival`` is the injected step inside the region. ``args``, ``result`` and ``set`` are those of the end itself.
    """

    arrival: Step
    args: Value
    result: Value
    set: tuple[Assign, ...]


def arrival_name(end: syntax.Step) -> str:
    """Return the name of the step inside the region at which its paths end."""
    return f"{_NON_WORD.sub('_', end.name.text)}/arrival"


def lower_ending(loop: str, end: syntax.Step, passed_values: Value) -> Ending:
    """Split the end of a loop; ``passed_values`` are those that the routes to it bind to names."""
    requested_result = end.result if end.result is not None else _all_results(loop, end.span)
    arrival_names = _names_at_arrivals(requested_result, {results_name(loop), ALL_RESULTS})
    arrival = Step(
        arrival_name(end),
        end.span,
        injected=True,
        join="each",
        args=overlay(passed_values, end.args),
        result=select_names(requested_result, arrival_names) if arrival_names else None,
        route=Route(on_no_match="quiet"),
    )
    result = overlay(requested_result, template_mapping({name: name for name in arrival_names}, end.span))
    return Ending(arrival, _args_of_end(loop, end, arrival_names), result, _assigns_to_ctx(end, result))


def _all_results(loop: str, span: Span) -> Value:
    return template_mapping({"results": results_name(loop)}, span)


def _names_at_arrivals(requested_result: Value, results: set[str]) -> list[str]:
    """Return the names of the parts that are rendered at each arrival: they read names of the iteration, and neither
    ``results``, which only the end of the loop sees, nor other parts.
    """
    read_names = {name: _read_names(select_names(requested_result, [name])) for name in mapping_of(requested_result)}
    return sorted(
        name
        for name, names in read_names.items()
        if names - _RUN_NAMES and not names & results and not names & (read_names.keys() - {name})
    )


def _read_names(value: Value) -> set[str]:
    return {name for template in templates_in(value) for name in analyse_template(template.source).root_names}


def _args_of_end(loop: str, end: syntax.Step, arrival_names: list[str]) -> Value:
    """Return the names bound for the end: the results of the iterations, and a list for each name of the arrivals."""
    results = f"results[{loop!r}]"
    arrivals = f"{results} | map(attribute={arrival_name(end)!r}) | select('defined') | sum(start=[])"
    expressions = {results_name(loop): results, ALL_RESULTS: results}
    expressions |= {name: f"{arrivals} | map(attribute={name!r}) | list" for name in arrival_names}
    return template_mapping(expressions, end.span)


def _assigns_to_ctx(end: syntax.Step, result: Value) -> tuple[Assign, ...]:
    sources = {name: f"{{{{ results[{end.name.text!r}][{name!r}] }}}}" for name in mapping_of(result)}
    return tuple(Assign(f"ctx.{name}", Value(source, {"": end.span}), end.span) for name, source in sources.items())
