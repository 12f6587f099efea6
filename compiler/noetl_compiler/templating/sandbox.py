"""The Jinja environment of playbooks: a sandbox without access to Python's internals, with bounded work.

Jinja's ImmutableSandboxedEnvironment keeps a template away from Python's internals. It does not bound work, so

* the syntax tree of every template is rewritten before it is compiled (instrument.py);
* operators, filters, tests and calls charge the :class:`RenderBudget` of the rendering, an attribute of the context;
* nothing is computed at compile time: Jinja's optimizer is off, and every filter takes the context, which
  prevents constant folding.

Only the filters, tests (filters.py) and methods listed here exist. They depend on nothing but their
arguments.

Names. An attribute of a mapping or view is its item, or one of a few harmless methods of dict if there is no
such item. Attributes of a missing value are missing too, so ``a.b.c | default(1)`` works whichever part is
absent. Any other use of a missing value raises :class:`UndefinedNameError`.
"""

from __future__ import annotations

import datetime
import types
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, cast

from jinja2 import StrictUndefined
from jinja2.exceptions import SecurityError, TemplateRuntimeError, UndefinedError
from jinja2.runtime import Context, LoopContext, Undefined
from jinja2.sandbox import MAX_RANGE, ImmutableSandboxedEnvironment
from jinja2.utils import Namespace, missing

from noetl_compiler.templating.budget import BudgetExceededError, RenderBudget, current_budget
from noetl_compiler.templating.filters import FILTERS, TESTS
from noetl_compiler.templating.formats import FormatMethod, format_percent
from noetl_compiler.templating.materialise import to_text
from noetl_compiler.templating.operation_costs import charge_text_method
from noetl_compiler.templating.undefined import UndefinedNameError

__all__ = ["ENVIRONMENT", "ScopeContext"]

_STEPS_PER_CALL, _STEPS_PER_ARGUMENT = 130, 20
_STEPS_PER_MISSING_VALUE, _STEPS_PER_SLOW_LOOKUP, _STEPS_PER_NAMESPACE = 70, 220, 25
_STEPS_PER_JOINED_ITEM, _STEPS_PER_DIRECTIVE = 25, 30
_STEPS_PER_OPERATOR, _BITS_PER_STEP_OF_DIVISION = 10, 8
_NUMBERS = frozenset({bool, float, int})
_ENCODINGS = frozenset({"ascii", "cp1252", "iso-8859-1", "latin-1", "latin1", "utf-16", "utf-8", "utf8"})
"""Allowed encodings. Others are much slower than copying text, or do not encode text."""

_LOOP_VALUES = frozenset(
    {"changed", "cycle", "depth", "depth0", "first", "index", "index0"}
    | {"last", "length", "nextitem", "previtem", "revindex", "revindex0"}
)
_MAPPING_METHODS = frozenset({"copy", "get", "items", "keys", "values"})
_TEXT_METHODS = """
    capitalize casefold center count encode endswith find format format_map index isalnum isalpha isascii
    isdecimal isdigit isidentifier islower isnumeric isprintable isspace istitle isupper join ljust lower
    lstrip partition removeprefix removesuffix replace rfind rindex rjust rpartition rsplit rstrip split
    splitlines startswith strip swapcase title upper zfill
"""
_DATE_ATTRIBUTES = """
    date day hour isocalendar isoformat isoweekday microsecond minute month replace second strftime time
    tzinfo utcoffset weekday year
"""
_METHODS: tuple[tuple[type, frozenset[str]], ...] = (
    (str, frozenset(_TEXT_METHODS.split())),
    (list, frozenset({"copy", "count", "index"})),
    (tuple, frozenset({"count", "index"})),
    (int, frozenset({"bit_length"})),
    (float, frozenset({"is_integer"})),
    (bytes, frozenset({"decode", "hex"})),
    (
        datetime.date,
        frozenset(_DATE_ATTRIBUTES.split()),
    ),  # nothing that reads the clock or the local time zone
)


_METHODS_OF_TYPE: dict[type, frozenset[str]] = {
    kind: methods for kind, methods in _METHODS if kind is not datetime.date
}
"""``_METHODS`` by exact type, for a faster lookup than by Jinja's own rules, which inspect each object."""

METHODS = _MAPPING_METHODS.union(*(names for _, names in _METHODS))
"""Every method that a template may call, of any type."""


class Missing(StrictUndefined):
    """A missing value: its attributes are missing too, any other use raises."""

    __slots__ = ()

    def __init__(
        self,
        hint: str | None = None,
        obj: Any = missing,
        name: str | None = None,
        exc: type[TemplateRuntimeError] = UndefinedError,
    ) -> None:
        _charge_lookup(_STEPS_PER_MISSING_VALUE)
        exception_type: Any = partial(UndefinedNameError, str(name)) if exc is UndefinedError else exc
        super().__init__(hint, obj, name, exception_type)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __getitem__(self, key: object) -> Missing:  # type: ignore[override]
        return self


def _charge_lookup(steps: int) -> None:
    """Charge for a slow lookup, for which Jinja passes no context: the budget is in the context variable."""
    if (budget := current_budget.get()) is not None:
        budget.charge_steps(steps)


class ScopeContext(Context):
    """A context that looks up names in the scope lazily."""

    def __init__(self, scope: Mapping[str, Any], budget: RenderBudget) -> None:
        super().__init__(ENVIRONMENT, {}, None, {})
        self.scope = scope
        self.budget = budget

    def resolve_or_missing(self, key: str) -> Any:
        """Look up a name: set by the template, in the scope, or a global."""
        if key in self.vars:
            return self.vars[key]
        try:
            return self.scope[key]
        except KeyError:
            return self.environment.globals.get(key, missing)


class Sandbox(ImmutableSandboxedEnvironment):
    """The environment described in this module's docstring."""

    intercepted_binops = frozenset({"+", "*", "**", "%", "/", "//"})

    def getattr(self, obj: Any, attribute: str) -> Any:
        """Evaluate ``obj.attribute``."""
        kind = cast("type[Any]", type(obj))
        if kind is dict and attribute in obj:
            return obj[attribute]
        if kind is Namespace and not attribute.startswith("_"):
            _charge_lookup(_STEPS_PER_NAMESPACE)
            try:
                return getattr(obj, attribute)
            except AttributeError:
                return self.undefined(obj=obj, name=attribute)
        if isinstance(obj, Undefined):
            return obj
        if _is_mapping_or_view(obj):
            return self._item_or_method(obj, attribute)
        if isinstance(obj, LoopContext) and attribute in _LOOP_VALUES:
            return getattr(obj, attribute)  # as Jinja does, but faster: loops read it often
        if isinstance(obj, str) and attribute in ("format", "format_map"):
            return FormatMethod(self, obj, attribute)
        if attribute in _METHODS_OF_TYPE.get(kind, ()):
            return getattr(obj, attribute)
        _charge_lookup(_STEPS_PER_SLOW_LOOKUP)
        return super().getattr(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        """Evaluate ``obj[argument]``, which never reads an attribute."""
        if isinstance(obj, Undefined):
            return obj
        try:
            return obj[argument]
        except (TypeError, LookupError):
            return self.undefined(obj=obj, name=argument)

    def _item_or_method(self, view: Any, attribute: str) -> Any:
        try:
            return view[attribute]
        except (TypeError, LookupError):
            if attribute in _MAPPING_METHODS and hasattr(view, attribute):
                return getattr(view, attribute)
            return self.undefined(obj=view, name=attribute)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Apply Jinja's rules, and allow only the listed methods of plain types."""
        if not super().is_safe_attribute(obj, attr, value):
            return False
        return next((attr in methods for kind, methods in _METHODS if isinstance(obj, kind)), True)

    def call(self, context: ScopeContext, obj: Any, /, *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]
        """Call ``obj``. Arguments are charged before the call, the result after it."""
        if kwargs:
            kwargs.pop("_loop_vars", None)
            kwargs.pop("_block_vars", None)
        budget = context.budget
        budget.charge_steps(_STEPS_PER_CALL + _STEPS_PER_ARGUMENT * (len(args) + len(kwargs)))
        for argument in (*args, *kwargs.values()):
            budget.charge_read(argument)
        if isinstance(obj, FormatMethod):
            return obj(budget, *args, **kwargs)
        if isinstance(obj, types.BuiltinMethodType):
            args = _charge_method(budget, obj, args)
        elif not self.is_safe_callable(obj):
            raise SecurityError("this cannot be called in a template")
        result = obj(*args, **kwargs)
        budget.charge_deep_read(result)
        return result

    def call_binop(self, context: ScopeContext, operator: str, left: Any, right: Any) -> Any:  # type: ignore[override]
        """Evaluate ``+ * ** % / //``, charged in advance."""
        context.budget.charge_steps(_STEPS_PER_OPERATOR)
        if operator == "%" and isinstance(left, str):
            return format_percent(context.budget, left, right)
        _OPERATOR_CHARGES[operator](context.budget, left, right)
        return self.binop_table[operator](left, right)


def _is_mapping_or_view(obj: Any) -> bool:
    return type(obj) is dict or hasattr(obj, "materialise") or isinstance(obj, Mapping)


def _charge_method(budget: RenderBudget, method: types.BuiltinMethodType, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Charge for a method whose result may be larger than its input; return the arguments to call it with."""
    owner: Any = method.__self__
    if not isinstance(owner, str):
        budget.charge_deep_read(owner)
        if isinstance(owner, datetime.date) and args and isinstance(args[0], str):
            budget.charge_steps(_STEPS_PER_DIRECTIVE * len(args[0]))
        return args
    budget.charge_read(owner)
    if method.__name__ == "join" and len(args) == 1:
        return (_join_items(budget, owner, *args),)
    if method.__name__ == "encode":
        _check_encoding(*args)
    charge_text_method(budget, method.__name__, owner, args)
    return args


def _check_encoding(name: str = "utf-8", *_errors: str) -> None:
    if name.lower() not in _ENCODINGS:
        raise SecurityError(f'the encoding "{name}" cannot be used in a template')


def _join_items(budget: RenderBudget, separator: str, items: Iterable[Any]) -> list[str]:
    parts: list[str] = []
    for item in items:
        budget.charge_steps(_STEPS_PER_JOINED_ITEM)
        parts.append(to_text(item, budget))
    budget.charge_chars(len(separator) * len(parts))
    return parts


def _charge_add(budget: RenderBudget, left: Any, right: Any) -> None:
    if left.__class__ not in _NUMBERS:
        budget.charge_deep_read(left)
        budget.charge_deep_read(right)


def _charge_multiply(budget: RenderBudget, left: Any, right: Any) -> None:
    if isinstance(left, int) and isinstance(right, int):
        budget.charge_long_integer(left.bit_length() + right.bit_length())
    elif isinstance(right, int):
        budget.charge_deep_read(left, max(0, right))
    elif isinstance(left, int):
        budget.charge_deep_read(right, max(0, left))


def _charge_power(budget: RenderBudget, left: Any, right: Any) -> None:
    if isinstance(left, int) and isinstance(right, int):
        budget.charge_long_integer(left.bit_length() * abs(right))


def _charge_divide(budget: RenderBudget, left: Any, right: Any) -> None:
    if isinstance(left, int) and isinstance(right, int):
        budget.charge_steps(left.bit_length() // _BITS_PER_STEP_OF_DIVISION)


_OPERATOR_CHARGES = {
    "%": _charge_divide,
    "*": _charge_multiply,
    "**": _charge_power,
    "+": _charge_add,
    "/": _charge_divide,
    "//": _charge_divide,
}


def _limited_range(*bounds: int) -> range:
    numbers = range(*bounds)
    if len(numbers[: MAX_RANGE + 1]) > MAX_RANGE:
        raise BudgetExceededError(f"the template produces a range of more than {MAX_RANGE:,} numbers")
    return numbers


_GLOBALS: dict[str, Any] = {"dict": dict, "namespace": Namespace, "null": None, "range": _limited_range}


def _environment() -> Sandbox:
    environment = Sandbox(
        undefined=Missing, autoescape=False, keep_trailing_newline=True, optimized=False, cache_size=0
    )
    environment.globals.clear()
    environment.globals.update(_GLOBALS)
    environment.filters = dict(FILTERS)
    environment.tests = dict(TESTS)
    return environment


ENVIRONMENT = _environment()
