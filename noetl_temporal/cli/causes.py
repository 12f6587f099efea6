"""The causes inside exception groups."""

from __future__ import annotations

from typing import cast

__all__ = ["cause_of"]


def cause_of(error: BaseException) -> BaseException:
    """Without the group that a task group wraps around what is raised inside of it."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    group = cast("BaseExceptionGroup[BaseException]", error)
    return cause_of(group.exceptions[0]) if len(group.exceptions) == 1 else group
