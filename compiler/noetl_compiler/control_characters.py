"""Report control characters in names: they are invisible, break lines of logs, and databases reject some of them."""

from __future__ import annotations

import re

from noetl_compiler.codes import Code
from noetl_compiler.report import Report
from noetl_compiler.source import Span

__all__ = ["report_control_character"]

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
"""Unicode's control characters, line and paragraph separators, and unpaired surrogates."""


def report_control_character(name: str, span: Span, report: Report) -> bool:
    """Report NT212 if a name contains a control character. Return whether it does."""
    character = _CONTROL.search(name)
    if character is not None:
        message = f"the control character U+{ord(character[0]):04X} is not allowed in a name"
        report.error(Code.CONTROL_CHARACTER, span, message, "remove it, or use a space or a hyphen")
    return character is not None
