"""``loop``, in the words of every dialect: they mean the same in all of them."""

from __future__ import annotations

from noetl_compiler.language import defaults
from noetl_compiler.language.construct import Construct, Extension, Key, without_effect
from noetl_compiler.language.constructs.policies import POLICY_DEFAULTS
from noetl_compiler.language.constructs.results import DEFAULTS
from noetl_compiler.language.defaults import CLAIM
from noetl_compiler.language.defaults import FRAME as FRAME_DEFAULTS
from noetl_compiler.language.value_types import TIMEOUT, Below, Choice, ListOf, Plain, Suggested
from noetl_compiler.language.words import (
    FRAME_PROCESSES,
    FRAME_RETRIES,
    ITEM_ERRORS,
    LOOP_FAILURES,
    LOOP_MODES,
    ROW_ERRORS,
    STRATEGIES,
)

__all__ = [
    "CURSOR",
    "FRAME",
    "LOOP",
    "LOOPS",
    "LOOP_FAILURE",
    "LOOP_KEYS",
    "LOOP_POLICY",
    "LOOP_SPEC",
    "PAGINATION",
]

_ABOUT_FRAME = (
    "How many items run in one activity, which is much faster than one activity each; with a cursor, how many rows a "
    "claimer takes at a time, and for how long it holds them."
)
_ABOUT_REDUCE = "How what the iterations set under a name becomes one value."
_REDUCE = Key("reduce", _ABOUT_REDUCE, Below("reduce"))

LOOP_KEYS = (
    Key(
        "in",
        "The list to go over, usually a template; a text or a mapping is one item.",
        Suggested(Plain.ANYTHING, ("{{ workload.items }}",)),
        older=("collection", "items"),
    ),
    Key("cursor", "Claims rows of a database one after the other, in place of a list.", Below("cursor")),
    Key(
        "iterator",
        f'The name of the item in each iteration, "{defaults.ITERATOR}" unless given.',
        Plain.NAME,
        older=("element", "as"),
    ),
    Key(
        "where",
        "Only items for which this expression holds; braces may be left out.",
        Plain.TEXT,
        older=("filter",),
        extension=Extension("loop.where", "which items a loop takes"),
    ),
    Key(
        "order_by",
        "The expression by whose value the items are sorted; braces may be left out.",
        Plain.TEXT,
        extension=Extension("loop.order_by", "how the items of a loop are sorted"),
    ),
    Key(
        "limit",
        "At most so many items are taken, counted after the filter.",
        Plain.AMOUNT,
        extension=Extension("loop.limit", "how many items a loop takes"),
    ),
    Key(
        "mode",
        'Whether iterations run one after the other ("sequential", the default), several at once ("parallel"), or in '
        'chunks of several items ("chunked").',
        Choice(LOOP_MODES),
    ),
    Key(
        "max_in_flight",
        f"How many iterations run at once: {defaults.IN_FLIGHT} unless given in a parallel loop, 1 in a chunked one.",
        Plain.COUNT,
        older=("concurrency",),
    ),
    Key(
        "chunk_size",
        "How many items one iteration takes, as a list.",
        Plain.COUNT,
        older=("chunk",),
        extension=Extension("loop.spec.chunk_size", "that a loop takes several items at a time"),
    ),
    Key("frame", _ABOUT_FRAME, Below("frame")),
    Key(
        "on_error",
        'Whether a failed iteration lets the others go on ("continue", the default) or stops them ("fail_fast").',
        Choice(ITEM_ERRORS),
        default="continue",
        extension=Extension("loop.spec.on_error", "that a failed iteration ends the loop"),
    ),
    Key("policy", "What failed iterations mean for the step as a whole.", Below("loop_policy")),
    Key(
        "next",
        "Where each item goes on when the step's tasks are done with it. The loop is over when these routes are.",
        Below("next"),
        extension=Extension("loop.next", "that an item has routes of its own"),
    ),
    without_effect("distribution", "iterations run on any free worker"),
)

_SETTINGS = (
    Key("timeout", "How long the whole loop may take.", TIMEOUT),
    _REDUCE,
    *DEFAULTS,
)

LOOP = Construct(
    "loop",
    "a loop",
    "Runs the step's tasks once for each item; the result is the list of all iterations' results.",
    (
        *LOOP_KEYS,
        *_SETTINGS,
        Key("spec", "How the iterations run: mode, max_in_flight, policy.", Below("loop_spec")),
        Key(
            "pagination",
            'Calls once more after each success; write "retry: {on_success: ...}" beside the tool.',
            Below("pagination"),
            deprecated=True,
        ),
    ),
    needs=(("in", "collection", "items", "cursor", "pagination"),),
    inside=("spec",),
)

LOOP_SPEC = Construct(
    "loop_spec",
    "a loop",
    "How the iterations run; what stands here counts as standing in the loop.",
    (*LOOP_KEYS, *_SETTINGS),
)

LOOP_POLICY = Construct(
    "loop_policy",
    "the policy of a loop",
    "What failed iterations mean for the step as a whole.",
    (
        Key(
            "exec",
            "Where iterations run; every value means wherever a worker is free.",
            Plain.TEXT,
            inert=True,
        ),
        Key("failure", "Whether the step fails when iterations have failed.", Below("loop_failure")),
        Key("mode", "How the iterations run, where the loop does not say it.", Choice(LOOP_MODES)),
        Key("max_in_flight", "How many iterations run at once.", Plain.COUNT, older=("concurrency",)),
        _REDUCE,
        *POLICY_DEFAULTS,
        without_effect("results", "the results of a loop are always a list in order"),
    ),
)

LOOP_FAILURE = Construct(
    "loop_failure",
    "the failure policy of a loop",
    "Whether the step fails when iterations have failed.",
    (
        Key(
            "mode",
            'The step fails with its iterations ("fail", the default) or completes with those that '
            'succeeded ("best_effort").',
            Choice(LOOP_FAILURES),
            default="fail",
        ),
    ),
)

FRAME = Construct(
    "frame",
    "a frame",
    _ABOUT_FRAME,
    (
        Key(
            "max_rows",
            "At most so many items or rows; unless given, "
            f"{FRAME_DEFAULTS['max_rows']} of a list and {CLAIM['max_rows']} of a cursor.",
            Plain.COUNT,
        ),
        Key(
            "max_seconds",
            f"After this no further item begins, {FRAME_DEFAULTS['max_seconds']} s for a list unless given.",
            Plain.SECONDS,
        ),
        Key("max_bytes", "Once the results have so many bytes no further item begins.", Plain.AMOUNT),
        Key(
            "row_concurrency",
            "How many items or rows of a frame are worked on at once; unless given, "
            f"{FRAME_DEFAULTS['row_concurrency']} of a list and {CLAIM['row_concurrency']} of a cursor.",
            Plain.COUNT,
        ),
        Key(
            "lease_seconds",
            "How long the rows of a cursor belong to the claimer unless it renews its lease, "
            f"{CLAIM['lease_seconds']} s unless given.",
            Plain.SECONDS,
        ),
        Key(
            "heartbeat_seconds",
            "How often a running call renews the lease of its row, a third of lease_seconds unless given.",
            Plain.SECONDS,
        ),
        Key(
            "max_attempts",
            f"How often a row may be claimed that is given back after a failure, {CLAIM['max_attempts']} times unless "
            "given.",
            Plain.COUNT,
        ),
        Key(
            "process", "What an iteration over a cursor takes: a row, or all rows of a claim.", Choice(FRAME_PROCESSES)
        ),
        Key(
            "retry_mode",
            "Whether the row or the whole frame is tried again; each call has its own retries.",
            Choice(FRAME_RETRIES),
        ),
    ),
)

CURSOR = Construct(
    "cursor",
    "a cursor",
    "Claims rows of a database until none is left.",
    (
        Key("kind", "The database that rows are claimed from.", Suggested(Plain.NAME, ("postgres",)), required=True),
        Key("auth", "The name of the credential for the database.", older=("credential",)),
        Key("claim", "The statement that claims the next rows and returns them.", Plain.TEXT, required=True),
        Key(
            "renew",
            "The statement that extends the lease of a row; it changes no row where the lease was lost.",
            Plain.TEXT,
            extension=Extension("loop.cursor.renew", "that the lease of a row is renewed while it is processed"),
        ),
        Key(
            "ack",
            "The statement that records how a row ended; it changes no row where the lease was lost.",
            Plain.TEXT,
            extension=Extension("loop.cursor.ack", "that a row is acknowledged"),
        ),
        Key(
            "release",
            "The statement that gives a row back.",
            Plain.TEXT,
            extension=Extension("loop.cursor.release", "that a row is given back"),
        ),
        Key(
            "on_row_error",
            'Whether a row whose iteration failed is acknowledged as failed ("ack", the default) or given back '
            '("release").',
            Choice(ROW_ERRORS),
            default="ack",
            extension=Extension("loop.cursor.on_row_error", "that a failed row is given back"),
        ),
        Key(
            "attempts",
            'How often a row has been claimed, this time included: "{{ row.attempts }}" unless given.',
            Plain.AMOUNT,
            extension=Extension("loop.cursor.attempts", "how often a row was claimed"),
        ),
        Key("params", "The values bound to the claim's own parameters, $1, $2 ...", ListOf(Plain.ANYTHING)),
        Key("database", "The name of the database."),
    ),
)

PAGINATION = Construct(
    "pagination",
    "a pagination",
    "Calls once more after each success, until all pages are there.",
    (
        without_effect("type", "continue_while and next_page define the pagination"),
        Key(
            "continue_while",
            "As long as this holds after a success, there is another page.",
            Plain.CONDITION,
            required=True,
        ),
        Key("next_page", "The fields of the tool that are other for the next page, such as params.", Plain.MAPPING),
        Key("merge_strategy", "How the pages become one result.", Choice(STRATEGIES)),
        Key("merge_path", "Where in each page its items are, such as data.items.", Plain.TEXT),
        Key("max_iterations", f"At most so many pages, {defaults.PAGES} unless given.", Plain.AMOUNT),
        Key("retry", "When to ask for a page once more.", Below("retry")),
    ),
)

LOOPS = (LOOP, PAGINATION, LOOP_SPEC, LOOP_POLICY, LOOP_FAILURE, FRAME, CURSOR)
