"""The checks in the order in which they run, one module each. A check reads the syntax tree and reports problems."""

from __future__ import annotations

from collections.abc import Callable

from noetl_compiler.checks.ambiguous_values import warn_of_ambiguous_values
from noetl_compiler.checks.attempts import warn_of_too_many_attempts
from noetl_compiler.checks.changed_credentials import forbid_changed_credentials
from noetl_compiler.checks.cycles import warn_of_endless_cycles
from noetl_compiler.checks.dead_routes import warn_of_dead_routes
from noetl_compiler.checks.endless_jumps import warn_of_endless_jumps
from noetl_compiler.checks.expected_names import warn_of_unbound_expectations
from noetl_compiler.checks.final_effects import warn_of_effects_after_failures
from noetl_compiler.checks.final_status import forbid_status_of_other_steps
from noetl_compiler.checks.item_routes import check_item_routes
from noetl_compiler.checks.loop_collections import check_loop_collections
from noetl_compiler.checks.lost_assignments import warn_of_lost_assignments
from noetl_compiler.checks.names import forbid_duplicate_names, forbid_invalid_names
from noetl_compiler.checks.parallel_set import warn_of_parallel_set
from noetl_compiler.checks.patches import warn_of_unknown_patches
from noetl_compiler.checks.python_code import check_python_code
from noetl_compiler.checks.regions import forbid_broken_regions
from noetl_compiler.checks.secret_reads import check_secrets
from noetl_compiler.checks.secrets import warn_of_secret_literals
from noetl_compiler.checks.shell_commands import warn_of_templates_in_commands
from noetl_compiler.checks.sinks import check_sinks
from noetl_compiler.checks.sizes import warn_of_oversized_data
from noetl_compiler.checks.sql_syntax import check_sql
from noetl_compiler.checks.targets import forbid_unknown_targets
from noetl_compiler.checks.template_keys import warn_of_template_keys
from noetl_compiler.checks.templates import check_templates
from noetl_compiler.checks.tools import forbid_unknown_tools
from noetl_compiler.checks.unmatched_errors import warn_of_unmatched_errors
from noetl_compiler.checks.unreachable_steps import warn_of_unreachable_steps
from noetl_compiler.checks.unsupported_parts import warn_of_unsupported_parts
from noetl_compiler.checks.unused_tasks import warn_of_unused_tasks
from noetl_compiler.checks.waits import forbid_two_schemas
from noetl_compiler.report import Report
from noetl_compiler.syntax import Playbook

__all__ = ["CHECKS"]

CHECKS: tuple[Callable[[Playbook, Report], None], ...] = (
    forbid_invalid_names,
    forbid_duplicate_names,
    forbid_unknown_targets,
    forbid_broken_regions,
    check_item_routes,
    warn_of_unreachable_steps,
    warn_of_endless_cycles,
    warn_of_dead_routes,
    warn_of_effects_after_failures,
    forbid_status_of_other_steps,
    check_templates,
    warn_of_template_keys,
    warn_of_unmatched_errors,
    warn_of_too_many_attempts,
    warn_of_parallel_set,
    warn_of_lost_assignments,
    warn_of_endless_jumps,
    check_loop_collections,
    forbid_unknown_tools,
    warn_of_unsupported_parts,
    forbid_two_schemas,
    warn_of_unknown_patches,
    check_python_code,
    check_sql,
    warn_of_templates_in_commands,
    warn_of_unbound_expectations,
    warn_of_unused_tasks,
    warn_of_secret_literals,
    check_secrets,
    forbid_changed_credentials,
    check_sinks,
    warn_of_oversized_data,
    warn_of_ambiguous_values,
)
