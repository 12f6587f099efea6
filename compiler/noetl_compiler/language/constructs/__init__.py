"""The keys of v10, one module per part of the language. The entry of a key has everything that any phase needs.

Other dialects share the keys that mean the same in them. Keys that only they have are read and described by hand
(``dialects/v1``, ``dialects/case``, ``schema/v1.py`` and so on), as are the shapes that are a choice of several forms
(schema/shapes.py) and the fields of tools (language/tools.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from noetl_compiler.language.construct import Construct, Key
from noetl_compiler.language.constructs.calls import CALLS, TASK, WORKBOOK_TASK
from noetl_compiler.language.constructs.loops import LOOPS
from noetl_compiler.language.constructs.playbook import ROOT
from noetl_compiler.language.constructs.policies import POLICIES
from noetl_compiler.language.constructs.results import RESULTS
from noetl_compiler.language.constructs.routes import ROUTES
from noetl_compiler.language.constructs.sinks import SINKS
from noetl_compiler.language.constructs.steps import CASE_STEP_CONSTRUCTS, STEP, STEP_SPEC
from noetl_compiler.language.value_types import Either, ListOf, Nested, ValueType

__all__ = ["CONSTRUCTS", "nested_construct"]

_ALL = (
    *ROOT,
    STEP,
    STEP_SPEC,
    *CASE_STEP_CONSTRUCTS,
    *LOOPS,
    *CALLS,
    TASK,
    WORKBOOK_TASK,
    *POLICIES,
    *RESULTS,
    *ROUTES,
    *SINKS,
)
CONSTRUCTS: Mapping[str, Construct] = MappingProxyType({construct.name: construct for construct in _ALL})
"""Every construct by its name."""

_CANONICAL: Mapping[str, str] = MappingProxyType(
    {
        "tool": "task",
        "workbook": "workbook_task",
        "next": "arcs",
        "arc": "target",
        "route": "target",
        "sinks": "sink",
        "collect": "collect_mapping",
        "otherwise": "otherwise_then",
        "otherwise_verdict": "otherwise_verdict_then",
        "select": "part",
    }
)
"""A shape that has several forms -> the construct that ``migrate`` writes for it."""


def nested_construct(key: Key) -> Construct | None:
    """Return the construct of the value of a key, or of the items of its list; None for other values."""
    return _construct_in(key.type)


def _construct_in(value: ValueType) -> Construct | None:
    match value:
        case Nested(name):
            return CONSTRUCTS.get(_CANONICAL.get(name, name))
        case ListOf(item):
            return _construct_in(item)
        case Either(types):
            return next((construct for option in types if (construct := _construct_in(option)) is not None), None)
        case _:
            return None
