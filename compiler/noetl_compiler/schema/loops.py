"""``loop``, in the words of every dialect: they mean the same in all of them."""

from __future__ import annotations

from noetl_compiler.dialects.cursors import FRAME_WORDS
from noetl_compiler.dialects.reducers import REDUCERS
from noetl_compiler.language import defaults
from noetl_compiler.language.defaults import FRAME
from noetl_compiler.language.words import ITEM_ERRORS, LOOP_FAILURES, LOOP_MODES
from noetl_compiler.schema.model import Model, Models, Property, Shape, without_effect
from noetl_compiler.schema.policies import STRATEGY
from noetl_compiler.schema.results import DEFAULTS, POLICY_DEFAULTS
from noetl_compiler.schema.values import (
    AMOUNT,
    CONDITION,
    MAPPING,
    NAME,
    SECONDS,
    TEXT,
    TIMEOUT,
    open_words,
    ref,
    told_words,
    words,
)

__all__ = ["LOOPS", "LOOP_PROPERTIES"]

_MODES = told_words(LOOP_MODES.about)

_ABOUT_FRAME = (
    "How many items run in one activity, which is much faster than one activity each; with a cursor, how many rows a "
    "claimer takes at a time, and for how long it holds them."
)

LOOP_PROPERTIES = (
    Property(
        "in",
        "The list to go over, usually a template; a text or a mapping is one item.",
        {"examples": ["{{ workload.items }}"]},
        older=("collection", "items"),
    ),
    Property(
        "iterator",
        f'The name of the item in each iteration, "{defaults.ITERATOR}" unless given.',
        NAME,
        older=("element", "as"),
    ),
    Property("cursor", "Claims rows of a database one after the other, in place of a list.", ref("cursor")),
    Property(
        "mode",
        'Whether iterations run one after the other ("sequential", the default), several at once ("parallel"), or in '
        'chunks of several items ("chunked").',
        _MODES,
    ),
    Property(
        "max_in_flight",
        f"How many iterations of a parallel loop run at once, {defaults.IN_FLIGHT} unless given.",
        AMOUNT,
        older=("concurrency",),
    ),
    Property("chunk_size", "How many items one iteration of a chunked loop takes.", AMOUNT, older=("chunk",)),
    Property("limit", "At most so many items are taken, counted after the filter.", AMOUNT),
    Property("where", "Only items for which this expression holds; braces may be left out.", TEXT, older=("filter",)),
    Property("order_by", "The expression by whose value the items are sorted; braces may be left out.", TEXT),
    Property(
        "on_error",
        'Whether a failed iteration lets the others go on ("continue", the default) or stops them ("fail_fast").',
        told_words(ITEM_ERRORS.about),
    ),
    Property("policy", "What failed iterations mean for the step as a whole.", ref("loop_policy")),
    without_effect("distribution", "iterations always run where there is room"),
    Property("frame", _ABOUT_FRAME, ref("frame")),
)

_SETTINGS = (
    Property("timeout", "How long the whole loop may take.", TIMEOUT),
    Property("reduce", "How what the iterations set under a name becomes one value.", ref("reduce")),
    *DEFAULTS,
)

_FRAME = {
    "max_rows": f"At most so many items or rows, {FRAME['max_rows']} of a list unless given.",
    "lease_seconds": "For how long the rows are the claimer's own.",
    "heartbeat_seconds": "How often the claimer says that it is alive.",
    "row_concurrency": (
        f"How many items or rows of a frame are worked on at once, {FRAME['row_concurrency']} of a list unless given."
    ),
    "max_attempts": "How often a frame is tried.",
}
_ROW_OR_FRAME = "Whether this is done for each row or for the frame as a whole."

LOOPS: Models = (
    Model(
        "loop",
        "Runs the step's tasks once for each item; the result is the list of all iterations' results.",
        (
            *LOOP_PROPERTIES,
            *_SETTINGS,
            Property("spec", "How the iterations run: mode, max_in_flight, policy.", ref("loop_spec")),
            Property(
                "pagination",
                'Calls once more after each success; write "retry: {on_success: ...}" beside the tool.',
                ref("pagination"),
                deprecated=True,
            ),
        ),
        needs=(("in", "collection", "items", "cursor", "pagination"),),
        inside=("spec",),
    ),
    Model(
        "pagination",
        "Calls once more after each success, until all pages are there.",
        (
            without_effect("type", "the response tells the next page, by continue_while and next_page"),
            Property(
                "continue_while",
                "As long as this holds after a success, there is another page.",
                CONDITION,
                required=True,
            ),
            Property("next_page", "The fields of the tool that are other for the next page, such as params.", MAPPING),
            Property("merge_strategy", "How the pages become one result.", STRATEGY),
            Property("merge_path", "Where in each page its items are, such as data.items.", TEXT),
            Property("max_iterations", f"At most so many pages, {defaults.PAGES} unless given.", AMOUNT),
            Property("retry", "When to ask for a page once more.", ref("retry")),
        ),
    ),
    Model(
        "loop_spec",
        "How the iterations run; what stands here counts as standing in the loop.",
        (*LOOP_PROPERTIES, *_SETTINGS),
    ),
    Model(
        "loop_policy",
        "What failed iterations mean for the step as a whole.",
        (
            Property("exec", "Where iterations run; every value means wherever a worker is free.", TEXT),
            Property("failure", "Whether the step fails when iterations have failed.", ref("loop_failure")),
            Property("mode", "How the iterations run, where the loop does not say it.", _MODES),
            Property("max_in_flight", "How many iterations run at once.", AMOUNT, older=("concurrency",)),
            Property("reduce", "How what the iterations set under a name becomes one value.", ref("reduce")),
            *POLICY_DEFAULTS,
            without_effect("results", "the results of a loop are always a list in order"),
        ),
    ),
    Model(
        "loop_failure",
        "Whether the step fails when iterations have failed.",
        (
            Property(
                "mode",
                'The step fails with its iterations ("fail", the default) or completes with those that '
                'succeeded ("best_effort").',
                told_words(LOOP_FAILURES.about),
            ),
        ),
    ),
    Shape("reduce", {"type": "object", "additionalProperties": words(*sorted(REDUCERS))}),
    Model(
        "frame",
        _ABOUT_FRAME,
        (
            *(Property(name, about, AMOUNT) for name, about in _FRAME.items()),
            Property(
                "max_seconds",
                f"After this no further item begins, {FRAME['max_seconds']} s for a list unless given.",
                SECONDS,
            ),
            Property("max_bytes", "Once the results have so many bytes no further item begins.", AMOUNT),
            *(Property(name, _ROW_OR_FRAME, words(*meanings)) for name, meanings in FRAME_WORDS.items()),
        ),
    ),
    Model(
        "cursor",
        "Claims rows of a database until none is left.",
        (
            Property("kind", "The database that rows are claimed from.", open_words("postgres"), required=True),
            Property("claim", "The statement that claims the next rows and returns them.", TEXT, required=True),
            Property("auth", "The name of the credential for the database.", older=("credential",)),
            Property("params", "The values bound to the statement's parameters."),
            Property("database", "The name of the database."),
        ),
    ),
)
