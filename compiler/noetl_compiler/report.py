"""Collect the diagnostics of one file."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable

from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import Diagnostic, Related, Severity
from noetl_compiler.language.tool_description import Tools
from noetl_compiler.language.tools import KINDS
from noetl_compiler.nodes import Node
from noetl_compiler.source import SourceFile, Span
from noetl_compiler.templating.locate import TemplateLocator

__all__ = ["Report"]


class Report:
    """Collects the diagnostics of one file. Reporting one does not end a pass.

    ``root`` is the document, and ``locator`` finds the spans of parts of its templates. ``tools`` are the kinds of
    tools that it may call.
    """

    def __init__(
        self,
        source: SourceFile,
        diagnostics: Iterable[Diagnostic] = (),
        root: Node | None = None,
        tools: Tools = KINDS,
    ) -> None:
        self.source = source
        self.diagnostics: list[Diagnostic] = list(diagnostics)
        self.root = root
        self.tools = tools
        self.locator = TemplateLocator(source, root)
        self._reported_keys: set[str] = set()
        self._errors = sorted(
            (diagnostic.span.line, diagnostic.span.col)
            for diagnostic in self.diagnostics
            if diagnostic.severity is Severity.ERROR
        )

    def first_time(self, key: str) -> bool:
        """Return True at the first call with ``key``, then False, for diagnostics that are reported once per file."""
        is_first = key not in self._reported_keys
        self._reported_keys.add(key)
        return is_first

    def has_error_in(self, span: Span) -> bool:
        """Whether an error was reported within the span, so that further diagnostics there would be unreliable."""
        index = bisect_left(self._errors, (span.line, span.col))
        return index < len(self._errors) and self._errors[index] < (span.end_line, span.end_col)

    def error(self, code: Code, span: Span, message: str, hint: str = "", related: tuple[Related, ...] = ()) -> None:
        """Report an error, which prevents a graph."""
        insort(self._errors, (span.line, span.col))
        self._add(Severity.ERROR, code, span, message, hint, related)

    def warning(self, code: Code, span: Span, message: str, hint: str = "", related: tuple[Related, ...] = ()) -> None:
        """Report a warning: the graph is as written, which may not be intended."""
        self._add(Severity.WARNING, code, span, message, hint, related)

    def _add(
        self,
        severity: Severity,
        code: Code,
        span: Span,
        message: str,
        hint: str,
        related: tuple[Related, ...],
    ) -> None:
        self.diagnostics.append(Diagnostic(code, severity, span, message, hint, related, self.source.file))
