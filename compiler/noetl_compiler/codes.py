"""Every diagnostic code with its one-sentence meaning. A code is never reused and never renumbered.

NT0xx text and YAML, NT1xx shape and fields, NT2xx steps and routes, NT3xx templates, NT4xx policies and loops,
NT5xx tools.
"""

from __future__ import annotations

from enum import Enum

__all__ = ["Code"]


class Code(Enum):
    """A stable code; its value is what a person sees."""

    UNREADABLE_FILE = "NT001"
    YAML_SYNTAX = "NT002"
    DUPLICATE_KEY = "NT003"
    BUDGET_EXCEEDED = "NT004"
    UNSUPPORTED_YAML = "NT005"
    TEMPLATE_SYNTAX = "NT301"
    FORBIDDEN_TEMPLATE = "NT302"

    @property
    def meaning(self) -> str:
        """One sentence for people."""
        return _MEANINGS[self]


_MEANINGS: dict[Code, str] = {
    Code.UNREADABLE_FILE: "The file is missing, is not a file, or is not UTF-8 text.",
    Code.YAML_SYNTAX: "The text is not valid YAML.",
    Code.DUPLICATE_KEY: "A mapping has the same key twice; only one of them would count.",
    Code.BUDGET_EXCEEDED: "The text is larger, deeper or expands further than a playbook may.",
    Code.UNSUPPORTED_YAML: "The YAML uses a tag, a complex key or several documents, which a playbook cannot have.",
    Code.TEMPLATE_SYNTAX: "A template is not valid Jinja2.",
    Code.FORBIDDEN_TEMPLATE: "A template uses something that is unsafe or not deterministic.",
}
