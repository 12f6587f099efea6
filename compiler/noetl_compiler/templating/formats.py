"""``"%5d" % x`` and ``"{:>5}".format(x)``: Python's formatting, charged for widths.

A width or precision has at most four digits. ``*``, which takes it from the arguments, is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

from jinja2.environment import Environment
from jinja2.sandbox import SandboxedFormatter

from noetl_compiler.templating.budget import BudgetExceededError, RenderBudget
from noetl_compiler.templating.materialise import to_text

__all__ = ["FormatMethod", "format_percent", "steps_of_float"]

_CONVERSION = re.compile(r"%(?:\([^()]*\))?[#0\- +]*(\d{0,4})(?:\.(\d{0,4}))?[a-zA-Z%]")
_DIGITS = re.compile(r"\d+")
_MAX_WIDTH = 9999
_STEPS_PER_CONVERSION, _STEPS_PER_EXTREME_FLOAT = 140, 700


def format_percent(budget: RenderBudget, text: str, arguments: Any) -> str:
    """Evaluate ``text % arguments``, charged in advance.

    Raises BudgetExceededError for a width over four digits, and for a ``%`` that no conversion follows.
    """
    budget.charge_read(text)
    position = text.find("%")
    while position >= 0:
        conversion = _CONVERSION.match(text, position)
        if not conversion:
            raise BudgetExceededError('a "%" is not followed by a format with a width of at most four digits')
        budget.charge_steps(_STEPS_PER_CONVERSION)
        budget.charge_chars(sum(int(width) for width in conversion.groups() if width))
        position = text.find("%", conversion.end())
    result: str = text % _convert_arguments(budget, arguments)
    budget.charge_chars(len(result))
    return result


def _convert_arguments(budget: RenderBudget, arguments: Any) -> Any:
    """Convert arguments other than text and numbers to text."""
    if isinstance(arguments, tuple):
        return tuple(_convert_argument(budget, item) for item in cast("tuple[Any, ...]", arguments))
    if isinstance(arguments, Mapping):
        items = cast("Mapping[Any, Any]", arguments).items()
        return {key: _convert_argument(budget, item) for key, item in items}
    return _convert_argument(budget, arguments)


def _convert_argument(budget: RenderBudget, value: Any) -> Any:
    budget.charge_read(value)
    _charge_number(budget, value)
    return value if isinstance(value, str | int | float) else to_text(value, budget)


def _charge_number(budget: RenderBudget, value: Any) -> None:
    """Charge for the digits of a number. A float may have hundreds."""
    if type(value) is int:
        budget.charge_digits(value.bit_length())
    elif type(value) is float:
        budget.charge_steps(steps_of_float(value))


def steps_of_float(number: float) -> int:
    """Return the steps for rounding or formatting a float, which takes long if it is very large or very small."""
    return 0 if number == 0 or 1e-9 < abs(number) < 1e16 else _STEPS_PER_EXTREME_FLOAT


class FormatMethod:
    """``text.format`` or ``text.format_map`` in a template, which the sandbox calls with the budget."""

    __slots__ = ("_environment", "_name", "_text")

    def __init__(self, environment: Environment, text: str, name: str) -> None:
        self._environment = environment
        self._text = text
        self._name = name

    def __call__(self, budget: RenderBudget, *args: Any, **kwargs: Any) -> str:
        """Return the formatted text."""
        if self._name == "format_map":
            (mapping,) = args
            args, kwargs = (), mapping
        budget.charge_read(self._text)
        result = _Formatter(self._environment, budget).vformat(self._text, args, kwargs)
        budget.charge_chars(len(result))
        return result


class _Formatter(SandboxedFormatter):
    def __init__(self, environment: Environment, budget: RenderBudget) -> None:
        super().__init__(environment)
        self._budget = budget

    def convert_field(self, value: Any, conversion: Any) -> Any:
        """Convert a value as ``!r``, ``!s`` or ``!a`` says, without running its methods."""
        self._budget.charge_deep_read(value)
        if conversion in ("r", "a") and isinstance(value, str | int | float | bool | None):
            return super().convert_field(value, conversion)
        return to_text(value, self._budget) if conversion else value

    def format_field(self, value: Any, format_spec: str) -> Any:
        """Format a value, charged for its width; containers are converted to text first."""
        for digits in _DIGITS.findall(format_spec):
            if len(digits) > 4:
                raise BudgetExceededError(f"a width in a format is larger than {_MAX_WIDTH:,}")
            self._budget.charge_chars(int(digits))
        self._budget.charge_steps(_STEPS_PER_CONVERSION)
        _charge_number(self._budget, value)
        if "," in format_spec or "_" in format_spec:  # Python formats grouped digits twice
            _charge_number(self._budget, value)
        if not format_spec:
            return to_text(value, self._budget)
        return super().format_field(value, format_spec)
