"""Models of all dialects, and those of steps in v10 and case."""

from __future__ import annotations

from noetl_compiler.language.constructs.loops import LOOPS
from noetl_compiler.language.constructs.playbook import ROOT
from noetl_compiler.language.constructs.policies import ACTION, EVAL_RULE, POLICIES
from noetl_compiler.language.constructs.results import RESULTS
from noetl_compiler.language.constructs.sinks import SINKS
from noetl_compiler.language.constructs.steps import CASE_STEP_CONSTRUCTS
from noetl_compiler.schema.from_table import model_of
from noetl_compiler.schema.model import Models
from noetl_compiler.schema.shapes import JUMPS_NEED_TO, OTHERWISE_VERDICT, SHAPES

__all__ = ["SHARED", "STEP_SPECS"]

_RULES = {construct.name: JUMPS_NEED_TO for construct in (ACTION, EVAL_RULE)}

SHARED: Models = (
    *(model_of(construct, _RULES.get(construct.name)) for construct in (*ROOT, *LOOPS, *POLICIES, *RESULTS, *SINKS)),
    *SHAPES,
)

STEP_SPECS: Models = (*map(model_of, CASE_STEP_CONSTRUCTS), OTHERWISE_VERDICT)
"""The models below the spec of a step, in v10 and case."""
