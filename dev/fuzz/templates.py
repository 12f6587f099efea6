"""Generates templates from a grammar: most are valid, some are expensive, unsafe or broken."""

from __future__ import annotations

import random
from typing import Any

from noetl_compiler import templates
from noetl_compiler.conditions import read_condition
from noetl_compiler.graph import Span, Template, Value
from noetl_compiler.templating.filters import FILTERS, TESTS

__all__ = ["check_template", "random_template"]

SPAN = Span(1, 1, 1, 2)
SCOPE: dict[str, Any] = {
    "ctx": {"n": 3, "items": list(range(50)), "text": "a b c", "map": {"a": {"b": [1, 2, {"c": "d"}]}}},
    "workload": {"cities": [{"name": "Oslo", "hot": False}, {"name": "Rome", "hot": True}]},
    "event": {"name": "call.done"},
    "output": {"status": "ok", "http": {"status": 200}, "data": {"rows": [{"id": 1}]}},
    "x": 1,
    "s": "text",
}
ATOMS = (
    *(
        "x",
        "s",
        "ctx.n",
        "ctx.items",
        "ctx.map.a.b[2].c",
        "workload.cities",
        "output.data.rows[0].id",
        "missing",
        "a.b.c",
    ),
    *("0", "1", "-3", "2.5", "10**9", "9**99", "'a'", '"%1000000d"', "''", "true", "none", "[]", "{}", "range(10**6)"),
    *(
        "ctx.__class__",
        "s.__init__.__globals__",
        "''.join",
        "s.format",
        "now()",
        "namespace(a=1)",
        "loop.index",
        "cycler('a')",
    ),
)
OPERATORS = ("+", "-", "*", "/", "//", "%", "**", "~", "==", "!=", "<", ">=", "in", "not in", "and", "or")
METHODS = (
    ".upper()",
    ".split(' ')",
    ".replace('a', 'b')",
    ".ljust(10**8)",
    ".items()",
    ".format(1)",
    "[0]",
    "[-1]",
    "['a']",
)


def random_template(rng: random.Random, seeds: list[str]) -> str:
    """Return one expression, a text with two, or a statement around one, sometimes with a piece missing."""
    del seeds
    left, other = _expression(rng, 5), _expression(rng, 3)
    text = rng.choice(
        (
            f"{{{{ {left} }}}}",
            f"a {{{{ {left} }}}} b {{{{- {other} -}}}}",
            f"{{% if {left} %}}{{{{ {other} }}}}{{% else %}}no{{% endif %}}",
            f"{{% for i in {left} %}}{{{{ i }}}}{{% for j in {other} %}}{{{{ j }}}}{{% endfor %}}{{% endfor %}}",
            f"{{% set a = {left} %}}{{{{ a ~ {other} }}}}",
        )
    )
    if rng.random() < 0.1:
        cut = rng.randrange(len(text))
        text = text[:cut] + text[cut + rng.randint(1, 4) :]
    return text


def _expression(rng: random.Random, depth: int) -> str:
    if depth == 0 or rng.random() < 0.2:
        return rng.choice(ATOMS)
    inner = _expression(rng, depth - 1)
    match rng.randrange(8):
        case 0 | 1:
            return f"({inner} {rng.choice(OPERATORS)} {_expression(rng, depth - 1)})"
        case 2 | 3:
            return f"{inner} | {rng.choice(sorted(FILTERS))}{_arguments(rng, depth)}"
        case 4:
            return f"({inner} is {rng.choice(('', 'not '))}{rng.choice(sorted(TESTS))})"
        case 5:
            return inner + rng.choice(METHODS)
        case 6:
            return f"[{inner}, {_expression(rng, depth - 1)}]"
        case _:
            return f"({inner} if {_expression(rng, depth - 1)} else {rng.choice(ATOMS)})"


def _arguments(rng: random.Random, depth: int) -> str:
    if rng.random() < 0.5:
        return ""
    parameter = rng.choice(("", "attribute=", "width="))
    return f"({parameter}{_expression(rng, depth - 1)})"


def check_template(source: str) -> None:
    """Check a template, describe it in words, and render it as a condition, alone and inside data."""
    templates.template_problems(source)
    read_condition(Template(source, SPAN))
    for run in (
        lambda: templates.render_text(source, SCOPE),
        lambda: templates.predicate(source, SCOPE),
        lambda: templates.render(Value({"a": source}, {"/a": SPAN}), SCOPE),
    ):
        try:
            run()
        except templates.TemplateFailure:
            continue
