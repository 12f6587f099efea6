"""Characters that no name may have: they show nowhere, break lines of logs, and some no database stores."""

from __future__ import annotations

import re

from noetl_compiler.codes import Code
from noetl_compiler.report import Report
from noetl_compiler.source import Span

__all__ = ["forbid_control_characters"]

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
"""Unicode's control characters, its separators of lines and paragraphs, and halves of surrogate pairs."""


def forbid_control_characters(name: str, span: Span, report: Report) -> bool:
    """NT212, at the name's place; whether there was one."""
    found = _CONTROL.search(name)
    if found is not None:
        message = f"the control character U+{ord(found[0]):04X} is not allowed in a name"
        report.error(Code.CONTROL_CHARACTER, span, message, "remove it, or use a space or a hyphen")
    return found is not None
