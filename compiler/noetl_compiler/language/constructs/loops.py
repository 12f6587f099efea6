"""``loop``, with the keys of all dialects, which mean the same in each."""

from __future__ import annotations

from noetl_compiler.language import defaults
from noetl_compiler.language.construct import Construct, Extension, Key, without_effect
from noetl_compiler.language.constructs.policies import POLICY_DEFAULTS
from noetl_compiler.language.constructs.results import CALL_DEFAULT_KEYS
from noetl_compiler.language.defaults import CLAIM
from noetl_compiler.language.defaults import FRAME as FRAME_DEFAULTS
from noetl_compiler.language.value_types import TIMEOUT, Choice, ListOf, Nested, Plain, Suggested
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
_ABOUT_REDUCE = "How the values that iterations set under one name are combined."
_REDUCE = Key("reduce", _ABOUT_REDUCE, Nested("reduce"))

LOOP_KEYS = (
    Key(
        "in",
        "The list to iterate over, usually a template; a string or a mapping is one item.",
        Suggested(Plain.ANYTHING, ("{{ workload.items }}",)),
        older=("collection", "items"),
    ),
    Key("cursor", "Claims rows of a database table, instead of iterating over a list.", Nested("cursor")),
    Key(
        "iterator",
        f'The name of the item in each iteration, "{defaults.ITERATOR}" by default.',
        Plain.NAME,
        older=("element", "as"),
    ),
    Key(
        "where",
        "Only items for which this expression holds; braces are optional.",
        Plain.TEXT,
        older=("filter",),
        extension=Extension("loop.where", "which items a loop takes"),
    ),
    Key(
        "order_by",
        "The expression to sort the items by; braces are optional.",
        Plain.TEXT,
        extension=Extension("loop.order_by", "how the items of a loop are sorted"),
    ),
    Key(
        "limit",
        "The maximum number of items, counted after the filter.",
        Plain.AMOUNT,
        extension=Extension("loop.limit", "how many items a loop takes"),
    ),
    Key(
        "mode",
        'Whether iterations run one after the other ("sequential", the default), concurrently ("parallel"), or in '
        'chunks of several items ("chunked").',
        Choice(LOOP_MODES),
    ),
    Key(
        "max_in_flight",
        f"How many iterations run concurrently; by default {defaults.IN_FLIGHT} (parallel) or 1 (chunked).",
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
    Key("frame", _ABOUT_FRAME, Nested("frame")),
    Key(
        "on_error",
        'Whether iterations continue after one failed ("continue", the default) or are stopped ("fail_fast").',
        Choice(ITEM_ERRORS),
        default="continue",
        extension=Extension("loop.spec.on_error", "that a failed iteration ends the loop"),
    ),
    Key("policy", "What failed iterations mean for the step as a whole.", Nested("loop_policy")),
    Key(
        "next",
        "Routes that each item takes after the step's tasks. The loop ends when the routes of all items have ended.",
        Nested("next"),
        extension=Extension("loop.next", "that an item has routes of its own"),
    ),
    without_effect("distribution", "iterations run on any free worker"),
)

_SETTINGS = (
    Key("timeout", "How long the whole loop may take.", TIMEOUT),
    _REDUCE,
    *CALL_DEFAULT_KEYS,
)

LOOP = Construct(
    "loop",
    "a loop",
    "Runs the step's tasks once for each item; the result is the list of all iterations' results.",
    (
        *LOOP_KEYS,
        *_SETTINGS,
        Key("spec", "How the iterations run: mode, max_in_flight, policy.", Nested("loop_spec")),
        Key(
            "pagination",
            'Calls again after each success; write "retry: {on_success: ...}" beside the tool.',
            Nested("pagination"),
            deprecated=True,
        ),
    ),
    needs=(("in", "collection", "items", "cursor", "pagination"),),
    needs_below=("spec",),
)

LOOP_SPEC = Construct(
    "loop_spec",
    "a loop",
    "How the iterations run; its keys may also be written in the loop itself.",
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
            restored=True,
        ),
        Key("failure", "Whether the step fails when iterations have failed.", Nested("loop_failure")),
        Key("mode", "How the iterations run, where the loop itself does not set it.", Choice(LOOP_MODES)),
        Key("max_in_flight", "How many iterations run concurrently.", Plain.COUNT, older=("concurrency",)),
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
            'The step fails with its iterations ("fail", the default), completes with those that succeeded '
            '("best_effort"), or ends with the first that fails, as with on_error ("fail_fast").',
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
            "The maximum number of items or rows; by default "
            f"{FRAME_DEFAULTS['max_rows']} of a list and {CLAIM['max_rows']} of a cursor.",
            Plain.COUNT,
        ),
        Key(
            "max_seconds",
            f"The time after which no further item starts, {FRAME_DEFAULTS['max_seconds']} s by default for a list.",
            Plain.SECONDS,
        ),
        Key("max_bytes", "No further item starts once the results have this many bytes.", Plain.AMOUNT),
        Key(
            "row_concurrency",
            "How many items or rows of a frame are processed concurrently; by default "
            f"{FRAME_DEFAULTS['row_concurrency']} of a list and {CLAIM['row_concurrency']} of a cursor.",
            Plain.COUNT,
        ),
        Key(
            "lease_seconds",
            "How long the rows of a cursor belong to the claimer unless it renews its lease, "
            f"{CLAIM['lease_seconds']} s by default.",
            Plain.SECONDS,
        ),
        Key(
            "heartbeat_seconds",
            "How often a running call renews the lease of its row, a third of lease_seconds by default.",
            Plain.SECONDS,
        ),
        Key(
            "max_attempts",
            f"How often a row may be claimed that is released after a failure, {CLAIM['max_attempts']} by default.",
            Plain.COUNT,
        ),
        Key(
            "process", "What an iteration over a cursor takes: a row, or all rows of a claim.", Choice(FRAME_PROCESSES)
        ),
        Key(
            "retry_mode",
            "Whether the row or the whole frame is retried; each call has its own retries.",
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
            "The statement that extends the lease of a row; it changes no row if the lease was lost.",
            Plain.TEXT,
            extension=Extension("loop.cursor.renew", "that the lease of a row is renewed while it is processed"),
        ),
        Key(
            "ack",
            "The statement that records the outcome of a row; it changes no row if the lease was lost.",
            Plain.TEXT,
            extension=Extension("loop.cursor.ack", "that a row is acknowledged"),
        ),
        Key(
            "release",
            "The statement that releases a row.",
            Plain.TEXT,
            extension=Extension("loop.cursor.release", "that a row is released"),
        ),
        Key(
            "on_row_error",
            'Whether a row whose iteration failed is acknowledged as failed ("ack", the default) or released '
            '("release").',
            Choice(ROW_ERRORS),
            default="ack",
            extension=Extension("loop.cursor.on_row_error", "that a failed row is released"),
        ),
        Key(
            "attempts",
            'How often a row has been claimed, including this time; "{{ row.attempts }}" by default.',
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
    "Calls again after each success, until the last page.",
    (
        without_effect("type", "continue_while and next_page define the pagination"),
        Key(
            "continue_while",
            "There is another page as long as this holds after a success.",
            Plain.CONDITION,
            required=True,
        ),
        Key("next_page", "The fields of the tool that change for the next page, such as params.", Plain.MAPPING),
        Key("merge_strategy", "How the pages are combined into one result.", Choice(STRATEGIES)),
        Key("merge_path", "Where in each page its items are, such as data.items.", Plain.TEXT),
        Key("max_iterations", f"The maximum number of pages, {defaults.PAGES} by default.", Plain.COUNT),
        Key("retry", "When to retry a page.", Nested("retry")),
    ),
)

LOOPS = (LOOP, PAGINATION, LOOP_SPEC, LOOP_POLICY, LOOP_FAILURE, FRAME, CURSOR)
