"""``"%5d" % x`` and ``"{:>5}".format(x)``: Python's formatting, charged for widths.

A width or precision has at most four digits. ``*``, which takes it from the arguments, is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from jinja2.environment import Environment
from jinja2.sandbox import SandboxedFormatter

from noetl_compiler.templating.budget import BudgetExceededError, RenderBudget
from noetl_compiler.templating.materialise import text_of

__all__ = ["FormatMethod", "percent", "wide_float"]

_CONVERSION = re.compile(r"%(?:\([^()]*\))?[#0\- +]*(\d{0,4})(?:\.(\d{0,4}))?[a-zA-Z%]")
_DIGITS = re.compile(r"\d+")
_MAX_WIDTH = 9999
_STEPS_A_CONVERSION, _STEPS_A_WIDE_FLOAT = 140, 700


def percent(meter: RenderBudget, text: str, arguments: Any) -> str:
    """Evaluate ``text % arguments``, charged in advance. Raises BudgetExceededError for widths over four digits."""
    meter.read(text)
    position = text.find("%")
    while position >= 0:
        found = _CONVERSION.match(text, position)
        if not found:
            raise BudgetExceededError('a "%" is not followed by a format with a width of at most four digits')
        meter.step(_STEPS_A_CONVERSION)
        meter.chars(sum(int(width) for width in found.groups() if width))
        position = text.find("%", found.end())
    result: str = text % _arguments(meter, arguments)
    meter.chars(len(result))
    return result


def _arguments(meter: RenderBudget, arguments: Any) -> Any:
    """Convert arguments other than text and numbers to text."""
    kind = arguments.__class__
    if issubclass(kind, tuple):
        return tuple(_argument(meter, item) for item in arguments)
    if issubclass(kind, Mapping):
        return {key: _argument(meter, item) for key, item in arguments.items()}
    return _argument(meter, arguments)


def _argument(meter: RenderBudget, value: Any) -> Any:
    meter.read(value)
    _charge_number(meter, value)
    return value if isinstance(value, str | int | float) else text_of(value, meter)


def _charge_number(meter: RenderBudget, value: Any) -> None:
    """Charge for the digits of a number, of which a float may have hundreds too."""
    if type(value) is int:
        meter.digits(value.bit_length())
    elif type(value) is float:
        meter.step(wide_float(value))


def wide_float(number: float) -> int:
    """Return the steps that rounding or writing a float takes: many if it is very large or very small."""
    return 0 if number == 0 or 1e-9 < abs(number) < 1e16 else _STEPS_A_WIDE_FLOAT


class FormatMethod:
    """A method that formats text.

    ``text.format`` or ``text.format_map`` in a template; only the sandbox calls it.
    """

    __slots__ = ("_environment", "_name", "_text")

    def __init__(self, environment: Environment, text: str, name: str) -> None:
        self._environment = environment
        self._text = text
        self._name = name

    def __call__(self, meter: RenderBudget, *args: Any, **kwargs: Any) -> str:
        """Return the formatted text."""
        if self._name == "format_map":
            (mapping,) = args
            args, kwargs = (), mapping
        meter.read(self._text)
        result = _Formatter(self._environment, meter).vformat(self._text, args, kwargs)
        meter.chars(len(result))
        return result


class _Formatter(SandboxedFormatter):
    def __init__(self, environment: Environment, meter: RenderBudget) -> None:
        super().__init__(environment)
        self._meter = meter

    def convert_field(self, value: Any, conversion: Any) -> Any:
        """Apply ``!r`` or ``!s`` to the data of a value."""
        self._meter.weigh(value)
        if conversion in ("r", "a") and isinstance(value, str | int | float | bool | None):
            return super().convert_field(value, conversion)
        return text_of(value, self._meter) if conversion else value

    def format_field(self, value: Any, format_spec: str) -> Any:
        """Format a value, charged for its width; containers are converted to text first."""
        for digits in _DIGITS.findall(format_spec):
            if len(digits) > 4:
                raise BudgetExceededError(f"a width in a format is larger than {_MAX_WIDTH:,}")
            self._meter.chars(int(digits))
        self._meter.step(_STEPS_A_CONVERSION)
        _charge_number(self._meter, value)
        if "," in format_spec or "_" in format_spec:  # grouped digits are written twice
            _charge_number(self._meter, value)
        if not format_spec:
            return text_of(value, self._meter)
        return super().format_field(value, format_spec)
