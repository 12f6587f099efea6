"""``collect``: how the results of repeated calls become one."""

from __future__ import annotations

from noetl_compiler.schema.model import Model, Models, Property, Shape
from noetl_compiler.schema.values import TEXT, any_of, ref, words

__all__ = ["COLLECT", "COLLECTING", "STRATEGIES"]

STRATEGIES = words("append", "extend", "replace", "collect", "merge")

COLLECT = (
    Property("collect", "How the results of all calls become one.", ref("collect")),
    Property("merge_path", "Where in each result its items are, such as data.items.", TEXT),
)
"""What any place that repeats a call has."""

COLLECTING: Models = (
    Model(
        "collect_mapping",
        "How the results of all calls become one.",
        (
            Property(
                "strategy",
                'Append the items to a list ("append"), keep the last result ("replace"), list whole results '
                '("collect"), or merge mappings ("merge").',
                STRATEGIES,
            ),
            Property("path", "Where in each result its items are, such as data.items.", TEXT, older=("merge_path",)),
            Property("into", 'The name under which templates see what was collected, "pages" unless given.', TEXT),
        ),
    ),
    Shape("collect", any_of(ref("collect_mapping"), STRATEGIES)),
)
