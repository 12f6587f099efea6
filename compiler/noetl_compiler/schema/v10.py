"""The steps of the v10 dialect: everything about a call is below ``tool``, everything about routes in arcs."""

from __future__ import annotations

from noetl_compiler.language.constructs.steps import STEP, STEP_SPEC
from noetl_compiler.schema.from_table import model_of
from noetl_compiler.schema.model import Models
from noetl_compiler.schema.shared import STEP_SPECS

__all__ = ["ACCEPTED_OLDER_NAMES", "STEPS"]

ACCEPTED_OLDER_NAMES = frozenset[str]()

STEPS: Models = (model_of(STEP), model_of(STEP_SPEC), *STEP_SPECS)
