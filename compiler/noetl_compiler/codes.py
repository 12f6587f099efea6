"""Every diagnostic code with its one-sentence meaning. A code is never reused and never renumbered.

NT0xx text and YAML, NT1xx shape and fields, NT2xx steps and routes, NT3xx templates, NT4xx policies and
loops, NT5xx tools, NT6xx calls of other playbooks.
"""

from __future__ import annotations

import re
from enum import Enum
from importlib.resources import files

__all__ = ["Code", "explanation"]


class Code(Enum):
    """A stable code; its value is what users see."""

    UNREADABLE_FILE = "NT001"
    YAML_SYNTAX = "NT002"
    DUPLICATE_KEY = "NT003"
    BUDGET_EXCEEDED = "NT004"
    UNSUPPORTED_YAML = "NT005"
    NOT_A_PLAYBOOK = "NT101"
    UNKNOWN_KEY = "NT102"
    WRONG_TYPE = "NT103"
    MISSING_FIELD = "NT104"
    IGNORED_FIELD = "NT105"
    WRONG_VALUE = "NT106"
    MIXED_DIALECTS = "NT108"
    CONFLICTING_FIELDS = "NT109"
    DEPRECATED_FORM = "NT110"
    CREDENTIAL_IN_TEXT = "NT111"
    OVERSIZED_DATA = "NT112"
    AMBIGUOUS_VALUE = "NT113"
    DUPLICATE_STEP = "NT201"
    DUPLICATE_LABEL = "NT202"
    UNKNOWN_STEP = "NT203"
    UNKNOWN_LABEL = "NT204"
    UNREACHABLE_STEP = "NT205"
    MISSING_NEXT = "NT206"
    NO_SUCH_LOOP = "NT207"
    OPEN_REGION = "NT208"
    REGION_BORDER = "NT209"
    ENDLESS_CYCLE = "NT210"
    DEAD_ROUTE = "NT211"
    CONTROL_CHARACTER = "NT212"
    EFFECT_AFTER_FAILURE = "NT213"
    TEMPLATE_SYNTAX = "NT301"
    FORBIDDEN_TEMPLATE = "NT302"
    UNDEFINED_NAME = "NT303"
    FOREIGN_NAME = "NT304"
    CONSTANT_CONDITION = "NT305"
    EARLY_RESULT = "NT306"
    NOT_BOOLEAN = "NT307"
    HIDDEN_NAME = "NT308"
    KEYCHAIN_READ = "NT309"
    TEMPLATE_KEY = "NT310"
    ERRORS_UNMATCHED = "NT401"
    PARALLEL_SET = "NT402"
    DEAD_RULE = "NT403"
    ENDLESS_JUMP = "NT404"
    UNBOUNDED_PAGES = "NT405"
    LOOP_OVER_TEXT = "NT406"
    LOST_ASSIGNMENT = "NT407"
    SHARED_ROUTE = "NT411"
    UNKNOWN_TOOL = "NT501"
    NO_EXECUTOR = "NT502"
    UNKNOWN_WORKBOOK_TASK = "NT503"
    TEMPLATE_IN_CODE = "NT504"
    UNUSED_WORKBOOK_TASK = "NT505"
    EXPECTED_NAME = "NT506"
    PYTHON_SYNTAX = "NT507"
    UNDEFINED_PYTHON_NAME = "NT508"
    NO_PYTHON_RESULT = "NT509"
    SQL_SYNTAX = "NT510"
    QUOTED_TEMPLATE = "NT511"
    UNREACHED_KEYCHAIN = "NT512"
    TEMPLATE_IN_COMMAND = "NT515"
    UNKNOWN_PLAYBOOK = "NT601"
    INVALID_PLAYBOOK = "NT602"
    PLAYBOOK_CYCLE = "NT603"
    MISSING_INPUT = "NT604"
    DUPLICATE_PLAYBOOK = "NT605"
    UNUSED_INPUT = "NT606"

    @property
    def meaning(self) -> str:
        """What the code means, in one sentence."""
        return _MEANINGS[self]

    @property
    def docs(self) -> str:
        """The path and anchor of its section in codes.md, relative to the root of the repository."""
        return f"compiler/noetl_compiler/codes.md#{self.value.lower()}-{self.name.lower().replace('_', '-')}"


_MEANINGS: dict[Code, str] = {
    Code.UNREADABLE_FILE: "The file is missing, is not a file, or is not UTF-8 text.",
    Code.YAML_SYNTAX: "The text is not valid YAML.",
    Code.DUPLICATE_KEY: "A mapping has the same key twice; only one of them would count.",
    Code.BUDGET_EXCEEDED: "The playbook exceeds a limit on size, depth or alias expansion.",
    Code.UNSUPPORTED_YAML: "The YAML uses a tag, a complex key or several documents.",
    Code.NOT_A_PLAYBOOK: "The document is not a NoETL playbook with a workflow.",
    Code.UNKNOWN_KEY: "A mapping has an unknown key.",
    Code.WRONG_TYPE: ("A value has the wrong type, such as a string where a mapping is expected."),
    Code.MISSING_FIELD: "A required field is missing or empty.",
    Code.IGNORED_FIELD: "A field is known but has no effect here.",
    Code.WRONG_VALUE: "A value is not one of the allowed values.",
    Code.MIXED_DIALECTS: "A playbook mixes constructs of two dialects.",
    Code.CONFLICTING_FIELDS: "Two fields are synonyms or mutually exclusive.",
    Code.DEPRECATED_FORM: "A form still works, but the current dialect has a better one.",
    Code.CREDENTIAL_IN_TEXT: "A password, key or token is written in the playbook in plain text.",
    Code.OVERSIZED_DATA: "The playbook contains more data than a run should carry.",
    Code.AMBIGUOUS_VALUE: "YAML reads an unquoted value differently from how it is written.",
    Code.DUPLICATE_STEP: "Two steps have the same name.",
    Code.DUPLICATE_LABEL: "Two tasks of one step, or of the workbook, have the same name.",
    Code.UNKNOWN_STEP: "A route, the entry, the final step or a `return_step` names a step that does not exist.",
    Code.UNKNOWN_LABEL: "A jump names a task that its step does not have.",
    Code.UNREACHABLE_STEP: "No route leads from the entry to this step, so it never runs.",
    Code.MISSING_NEXT: "A step has no route, although the playbook requires one of every step.",
    Code.NO_SUCH_LOOP: "An end_loop does not name a loop that it can end.",
    Code.OPEN_REGION: "A loop has no task of its own, and its steps do not reach an end of the loop.",
    Code.REGION_BORDER: "A route enters or leaves the body of a loop other than through its start or end.",
    Code.ENDLESS_CYCLE: "Steps form a cycle that no route leaves.",
    Code.DEAD_ROUTE: "A route can never be followed, because an earlier one always matches.",
    Code.CONTROL_CHARACTER: "A name contains a control character, such as a line break or NUL.",
    Code.EFFECT_AFTER_FAILURE: "The final step changes something, and it runs after a failure too.",
    Code.TEMPLATE_SYNTAX: "A template is not valid Jinja2.",
    Code.FORBIDDEN_TEMPLATE: "A template uses something that is unsafe or not deterministic.",
    Code.UNDEFINED_NAME: "A template reads a name that is not defined there.",
    Code.FOREIGN_NAME: "A template uses a variable of another dialect.",
    Code.CONSTANT_CONDITION: "A condition has the same value in every run.",
    Code.EARLY_RESULT: "A template reads a result that cannot exist yet.",
    Code.NOT_BOOLEAN: "A condition yields something other than true or false, so it is almost always true.",
    Code.HIDDEN_NAME: (
        "A condition reads the name of a step, task or loop element, but every call binds that name to something else."
    ),
    Code.KEYCHAIN_READ: "A template needs the value of a secret, which only the called tool knows.",
    Code.TEMPLATE_KEY: "The key of a mapping contains a template, but only values are templates.",
    Code.ERRORS_UNMATCHED: ("A policy has no rule for some errors, so the step continues after a failed call."),
    Code.PARALLEL_SET: "Parallel iterations set the same name; the last one in order wins.",
    Code.DEAD_RULE: "A rule can never match, because an earlier one always does.",
    Code.ENDLESS_JUMP: "A task jumps back, or is called again, and no condition ends the repetition.",
    Code.UNBOUNDED_PAGES: "Pagination has no limit on the number of pages.",
    Code.LOOP_OVER_TEXT: "The collection of a loop is a string or a number, so the loop runs once.",
    Code.LOST_ASSIGNMENT: "A name of an iteration is set where there is no iteration, and nothing reads it.",
    Code.SHARED_ROUTE: "A step is on the route of a loop's items, and is reached from elsewhere too.",
    Code.UNKNOWN_TOOL: "No installed package provides a tool kind, or the one that does cannot be loaded.",
    Code.NO_EXECUTOR: (
        "A kind of tool or another part of the playbook is known but not supported, so a run is refused."
    ),
    Code.UNKNOWN_WORKBOOK_TASK: (
        "A step calls a workbook task that does not exist, or workbook tasks call each other in a cycle."
    ),
    Code.TEMPLATE_IN_CODE: "Python code contains a template; code should read values by name.",
    Code.UNUSED_WORKBOOK_TASK: "A task of the workbook is never called.",
    Code.EXPECTED_NAME: "A task expects a name that its call does not bind.",
    Code.PYTHON_SYNTAX: "The code of a python task is not valid Python.",
    Code.UNDEFINED_PYTHON_NAME: "Python code reads a name that is not defined.",
    Code.NO_PYTHON_RESULT: "Python code neither sets a result nor defines main, so its result is always null.",
    Code.SQL_SYNTAX: "The SQL of a task does not parse.",
    Code.QUOTED_TEMPLATE: (
        "SQL has a template inside quotes, where a value that contains a quote changes the statement."
    ),
    Code.UNREACHED_KEYCHAIN: "A secret is in a secret manager that workers cannot read.",
    Code.TEMPLATE_IN_COMMAND: (
        "A shell command has a template, and a value that contains shell syntax changes what it runs."
    ),
    Code.UNKNOWN_PLAYBOOK: "A step calls a playbook that does not exist.",
    Code.INVALID_PLAYBOOK: "A step calls a playbook that has errors of its own.",
    Code.PLAYBOOK_CYCLE: "Playbooks call each other in a cycle.",
    Code.MISSING_INPUT: "A call of a playbook does not pass an input that the playbook needs.",
    Code.DUPLICATE_PLAYBOOK: "Two files have the same path and version.",
    Code.UNUSED_INPUT: "A call of a playbook passes a name that the playbook does not use.",
}


def explanation(code: Code) -> str:
    """Return the section of codes.md about a code: meaning, remedy and an example, as Markdown without a trailing
    line break.
    """
    page = files("noetl_compiler").joinpath("codes.md").read_text(encoding="utf-8")
    section = re.search(rf"^## {code.value} .*?(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    return "" if section is None else section[0].removeprefix("## ").rstrip()
