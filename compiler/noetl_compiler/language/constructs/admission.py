"""``admit``: rules about whether a step may begin."""

from __future__ import annotations

from noetl_compiler.language.construct import Construct, Key
from noetl_compiler.language.constructs.policies import MODE, WHEN
from noetl_compiler.language.value_types import ListOf, Nested, Plain

__all__ = ["ADMISSION", "ADMISSIONS", "ADMISSION_RULE", "OTHERWISE_VERDICT", "VERDICT"]

ADMISSION = Construct(
    "admission",
    "an admission policy",
    "Whether the step may start: the first rule that matches decides. If none matches, it may start.",
    (
        Key(
            "rules",
            "The rules, tried in order before the step starts.",
            ListOf(Nested("admission_rule")),
            snippet=[{"when": '"{{ $1 }}"', "then": {"allow": True}}, {"else": {"then": {"allow": False}}}],
        ),
        MODE,
    ),
)

ADMISSION_RULE = Construct(
    "admission_rule",
    "a policy rule",
    "A condition, and whether the step may start when it holds.",
    (
        WHEN,
        Key("then", "Whether the step may start when the condition holds.", Nested("verdict")),
        Key("else", "Whether the step may start when no earlier rule matched.", Nested("otherwise_verdict")),
    ),
    needs=(("then", "else"),),
)

VERDICT = Construct(
    "verdict",
    "an admission rule",
    "Whether the step may start.",
    (Key("allow", "True starts the step; false skips it.", Plain.FLAG, required=True),),
)

OTHERWISE_VERDICT = Construct(
    "otherwise_verdict_then",
    "a policy rule",
    "Whether the step may start when no earlier rule matched.",
    (Key("then", "Whether the step may start when no earlier rule matched.", Nested("verdict"), required=True),),
)

ADMISSIONS = (ADMISSION, ADMISSION_RULE, VERDICT, OTHERWISE_VERDICT)
