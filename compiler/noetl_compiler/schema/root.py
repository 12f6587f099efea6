"""What every dialect's document has around its steps."""

from __future__ import annotations

from noetl_compiler.dialects.executor import PROFILES
from noetl_compiler.language.defaults import FINAL_STEP
from noetl_compiler.language.words import DIALECTS
from noetl_compiler.schema.calls import DESC
from noetl_compiler.schema.model import Model, Models, Property, without_effect
from noetl_compiler.schema.policies import FAILURE
from noetl_compiler.schema.results import DEFAULTS, POLICY_DEFAULTS
from noetl_compiler.schema.values import FLAG, MAPPING, NAME, NAMES, TEXT, TIMEOUT, list_of, ref, words

__all__ = ["ROOT"]

_IDENTITY = (
    Property("name", "The name of the playbook.", TEXT),
    Property("path", "The path of the playbook in the catalog, by which other playbooks run it.", TEXT),
    Property("version", "The version of the playbook.", TEXT),
)
_KEPT = "results are kept inline or by reference as their size demands"

ROOT: Models = (
    Model(
        "playbook",
        "A NoETL playbook: steps that call tools, and the routes between them.",
        (
            Property("apiVersion", "The version of the format, such as noetl.io/v2.", TEXT, older=("api_version",)),
            Property("kind", "Says that this document is a playbook.", words("Playbook")),
            Property(
                "metadata", "The playbook's name and path, and whatever a catalog wants to know.", ref("metadata")
            ),
            *(
                Property(one.name, f'{one.about} Write it below "metadata".', one.value, deprecated=True)
                for one in _IDENTITY
            ),
            DESC,
            Property(
                "executor", "Where the playbook begins and ends, and what a failure means for it.", ref("executor")
            ),
            Property(
                "workload",
                "The playbook's parameters with their defaults; a run's request is merged over them.",
                NAMES,
            ),
            *(
                Property(key, 'What "ctx" begins with; write it below "workload".', NAMES, deprecated=True)
                for key in ("ctx", "vars")
            ),
            Property(
                "spec", 'Parameters as old files have them; write them below "workload".', MAPPING, deprecated=True
            ),
            Property("keychain", "The secrets that the playbook uses, by name.", list_of(ref("keychain_entry"))),
            Property(
                "workbook", "Tasks with a name, which steps run with kind: workbook.", ref("workbook"), ("workbooks",)
            ),
            Property(
                "workflow",
                'The steps; a run begins at the one named "start", else at the first.',
                {"type": "array", "items": ref("step"), "minItems": 1},
                required=True,
                snippet=[{"step": "start", "tool": {"kind": "$1"}}],
            ),
            without_effect("tracing", "Temporal traces every run"),
        ),
        needs=(("name", "path", "metadata"),),
    ),
    Model("metadata", "The playbook's name and path.", _IDENTITY, needs=(("name", "path"),), open=True),
    Model(
        "executor",
        "Where the playbook begins and ends, and what a failure means for it.",
        (
            Property(
                "profile", "Where the playbook runs; every value means wherever a worker is free.", words(*PROFILES)
            ),
            Property("version", "The version of the runtime that the playbook was written for.", TEXT),
            Property("requires", "The tools and features that the playbook needs.", ref("requirements")),
            Property(
                "spec", "Where the playbook begins and ends, and what a failure means for it.", ref("executor_spec")
            ),
        ),
    ),
    Model(
        "requirements",
        "The tools and features that the playbook needs.",
        (
            Property("tools", "The kinds of tools that the playbook calls.", list_of(TEXT)),
            Property("features", "What an engine must be able to do.", list_of(TEXT)),
        ),
    ),
    Model(
        "executor_spec",
        "Where the playbook begins and ends, and what a failure means for it.",
        (
            Property("entry_step", "The step that a run begins with.", TEXT),
            Property("final_step", f'The step where all routes meet, "{FINAL_STEP}" unless given.', TEXT),
            Property("no_next_is_error", "Whether a step without a route is an error.", FLAG),
            Property("timeout", "How long a run may take.", TIMEOUT),
            Property("policy", "What a failure means for the rest of the run.", ref("executor_policy")),
            *DEFAULTS,
            Property(
                "dialect",
                "The dialect that the playbook was migrated from, whose names and defaults count in it.",
                words(*DIALECTS),
            ),
        ),
    ),
    Model(
        "executor_policy",
        "What a failure means for the rest of the run.",
        (
            FAILURE,
            *POLICY_DEFAULTS,
            *(without_effect(name, _KEPT) for name in ("results", "limits")),
        ),
    ),
    Model(
        "keychain_entry",
        "A secret that the playbook uses.",
        (
            Property("name", "The name that templates call it by: {{ keychain.name.field }}.", NAME, required=True),
            Property("kind", "How the secret is found.", TEXT, older=("type",)),
        ),
        open=True,
    ),
)
