"""The document around the steps: identity, executor, workload, keychain."""

from __future__ import annotations

from noetl_compiler.language.construct import Construct, Extension, Key, without_effect
from noetl_compiler.language.constructs.policies import FAILURE, ON_FAILURE_TYPE, POLICY_DEFAULTS
from noetl_compiler.language.constructs.results import CALL_DEFAULT_KEYS, STORED_BY_SIZE
from noetl_compiler.language.constructs.steps import DESC
from noetl_compiler.language.defaults import FINAL_STEP
from noetl_compiler.language.value_types import TIMEOUT, Choice, ListOf, Nested, Plain, Range
from noetl_compiler.language.words import DIALECTS, PROFILES

__all__ = [
    "API_VERSIONS",
    "EXECUTOR",
    "EXECUTOR_POLICY",
    "EXECUTOR_SPEC",
    "FAIRNESS_WEIGHTS",
    "KEYCHAIN_ENTRY",
    "METADATA",
    "PLAYBOOK",
    "PRIORITIES",
    "REQUIREMENTS",
    "ROOT",
    "V1_API_VERSION",
    "V10_API_VERSIONS",
]

V10_API_VERSIONS = ("noetl.io/v2", "noetl.io/v10")
"""The apiVersions of v10 playbooks. ``noetl migrate`` writes the first, which upstream's production engines require.
"""

V1_API_VERSION = "noetl.io/v1"

API_VERSIONS = (*V10_API_VERSIONS, V1_API_VERSION)
"""The known apiVersions. They have no effect, as the dialect is detected by its constructs."""

_IDENTITY = (
    Key("name", "The name of the playbook.", Plain.TEXT),
    Key("path", "The path of the playbook in the catalog, by which other playbooks run it.", Plain.TEXT),
    Key("version", "The version of the playbook.", Plain.TEXT),
)
_ABOUT_EXECUTOR = "The first and the final step, and the effect of a failure on the run."

PLAYBOOK = Construct(
    "playbook",
    "a playbook",
    "A NoETL playbook: steps that call tools, and the routes between them.",
    (
        Key(
            "apiVersion",
            f"The version of the format, such as {V10_API_VERSIONS[0]}.",
            Plain.TEXT,
            older=("api_version",),
        ),
        Key("kind", "Marks this document as a playbook.", Choice({"Playbook": "Playbook"})),
        Key("metadata", "The playbook's name and path, and other data for a catalog.", Nested("metadata")),
        *(Key(key.name, f'{key.about} Write it below "metadata".', key.type, deprecated=True) for key in _IDENTITY),
        DESC,
        Key("executor", _ABOUT_EXECUTOR, Nested("executor")),
        Key(
            "workload",
            "The playbook's parameters with their defaults; a run's request is merged over them.",
            Plain.NAMES,
            default={},
        ),
        *(
            Key(name, 'The initial "ctx"; write it below "workload".', Plain.NAMES, deprecated=True)
            for name in ("ctx", "vars")
        ),
        Key("spec", 'Parameters as in old files; write them below "workload".', Plain.MAPPING, deprecated=True),
        Key(
            "keychain", "The secrets that the playbook uses, by name.", ListOf(Nested("keychain_entry")), verbatim=True
        ),
        Key(
            "workbook",
            "Tasks with a name, which steps run with kind: workbook.",
            Nested("workbook"),
            older=("workbooks",),
        ),
        Key(
            "workflow",
            'The steps; a run begins at the one named "start", else at the first.',
            ListOf(Nested("step"), min_length=1),
            required=True,
            snippet=[{"step": "start", "tool": {"kind": "$1"}}],
        ),
        without_effect("tracing", "Temporal traces every run"),
    ),
    needs=(("name", "path", "metadata"),),
)

PRIORITIES = Range(1, 5, is_integer=True)
FAIRNESS_WEIGHTS = Range(0.001, 1000)

METADATA = Construct(
    "metadata",
    "the metadata",
    "The playbook's name and path.",
    (
        *_IDENTITY,
        Key("priority", "The priority of the run when workers are busy: 1 (first) to 5 (last).", PRIORITIES),
        Key("fairness_key", "Runs with different keys, such as tenants, get equal shares of busy workers.", Plain.NAME),
        Key("fairness_weight", "The share of the runs with this fairness key, relative to others.", FAIRNESS_WEIGHTS),
        without_effect("inputs", "declare the parameters of a run under workload, with defaults"),
    ),
    needs=(("name", "path"),),
    open=True,
)

EXECUTOR = Construct(
    "executor",
    "the executor",
    _ABOUT_EXECUTOR,
    (
        Key(
            "profile",
            "Where the playbook runs; every value means wherever a worker is free.",
            Choice(PROFILES),
            verbatim=True,
        ),
        Key("version", "The version of the runtime that the playbook was written for.", Plain.TEXT, verbatim=True),
        Key("requires", "The tools and features that the playbook needs.", Nested("requirements"), verbatim=True),
        Key("spec", _ABOUT_EXECUTOR, Nested("executor_spec")),
    ),
)

REQUIREMENTS = Construct(
    "requirements",
    "what the executor requires",
    "The tools and features that the playbook needs.",
    (
        Key("tools", "The kinds of tools that the playbook calls.", ListOf(Plain.TEXT)),
        Key("features", "The features that an engine must support.", ListOf(Plain.TEXT)),
    ),
)

EXECUTOR_SPEC = Construct(
    "executor_spec",
    "the executor's spec",
    _ABOUT_EXECUTOR,
    (
        Key("entry_step", "The first step of a run.", Plain.TEXT),
        Key("final_step", f'The step where all routes meet, "{FINAL_STEP}" by default.', Plain.TEXT),
        Key("no_next_is_error", "Whether a step without a route is an error.", Plain.FLAG, default=False),
        Key("timeout", "How long a run may take.", TIMEOUT),
        Key(
            "on_failure",
            "Whether failed steps wait for a person, unless the step sets it itself.",
            ON_FAILURE_TYPE,
            extension=Extension("executor.spec.on_failure", "that failed steps wait for a person"),
        ),
        Key("policy", "The effect of a failure on the rest of the run.", Nested("executor_policy")),
        *CALL_DEFAULT_KEYS,
        Key(
            "dialect",
            "The dialect that the playbook was migrated from; its names and defaults apply.",
            Choice(DIALECTS),
            default="v10",
        ),
    ),
)

EXECUTOR_POLICY = Construct(
    "executor_policy",
    "the executor's policy",
    "The effect of a failure on the rest of the run.",
    (
        FAILURE,
        *POLICY_DEFAULTS,
        without_effect("results", STORED_BY_SIZE),
        without_effect("limits", "a run has the limits of its workers, and those that its loops and retries name"),
    ),
)

KEYCHAIN_ENTRY = Construct(
    "keychain_entry",
    "a keychain entry",
    "A secret that the playbook uses.",
    (
        Key("name", "Its name in templates: {{ keychain.name.field }}.", Plain.NAME, required=True),
        Key("kind", "How the secret is found.", Plain.TEXT, older=("type",)),
    ),
    open=True,
)

ROOT = (PLAYBOOK, METADATA, EXECUTOR, REQUIREMENTS, EXECUTOR_SPEC, EXECUTOR_POLICY, KEYCHAIN_ENTRY)
