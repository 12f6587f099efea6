"""Decides which stored values a machine loads, and when it drops them.

A deferred fact, or a *reader* (a run, or the arrivals at steps), waits for its own stored values and blocks nothing
else. The state records the values that each of them is known to need. Their number grows, since the second missing
value is only found once the first is loaded. All loads overlap, within ``LOADS_BYTES``. A value stays loaded as long as
a fact or reader needs it.

The values themselves are not part of the state: a restored machine loads them again.

None waits forever: the first deferred fact and the first reader load their values even beyond ``LOADS_BYTES``. A fact
is applied as soon as its values arrive. A reader must also wait until calls may begin, so only the first one may exceed
the limit.
"""

from __future__ import annotations

from collections.abc import Mapping

from noetl_temporal.machine.call import StoredRef
from noetl_temporal.machine.commands import Cancel, Command, LoadValue
from noetl_temporal.machine.state import MachineState, Pending
from noetl_temporal.machine.stored import LoadedValue, LoadedValues

__all__ = ["ARRIVALS", "LOADS_BYTES", "Loads"]

ARRIVALS = ""
"""The reader that represents all arrivals at steps; every other reader is a run, by its id."""

LOADS_BYTES = 16_000_000
"""Maximum total size of the values that a machine has loaded or requested, besides those exempt from the limit."""


class Loads:
    """The loaded values of one machine; ``limit`` is the maximum size of one in bytes."""

    def __init__(self, limit: int) -> None:
        self._loaded: dict[str, LoadedValue] = {}
        self._limit = limit

    @property
    def has_loaded(self) -> bool:
        """Whether a value is loaded."""
        return bool(self._loaded)

    def readable(self, missing: str = "") -> LoadedValues:
        """Return the loaded values for templates. ``missing`` is the error for values that are not loaded; "" if they
        can be loaded.
        """
        return LoadedValues(self._loaded, self._limit, missing)

    def add(self, load_id: str, value: LoadedValue) -> None:
        """Add a loaded value, or the error of loading it, by the id of its load."""
        self._loaded[load_id] = value

    def lacks(self, needs: Mapping[str, StoredRef]) -> bool:
        """Whether one of these values is not loaded."""
        return any(id_ not in self._loaded for id_ in needs)

    def update(self, state: MachineState) -> list[Command]:
        """Return commands that request the missing values and cancel unneeded loads; drop unneeded values."""
        needs = _values_needed(state)
        loads = [id_ for id_, operation in state.pending.items() if operation.kind == "load"]
        unneeded_ids = [id_ for id_ in loads if id_ not in needs]
        for id_ in unneeded_ids:
            del state.pending[id_]
        self._loaded = {id_: value for id_, value in self._loaded.items() if id_ in needs}
        return [*map(Cancel, unneeded_ids), *self._request_missing(state, needs)]

    def _request_missing(self, state: MachineState, needs: Mapping[str, StoredRef]) -> list[Command]:
        missing = {
            id_: reference for id_, reference in needs.items() if id_ not in self._loaded and id_ not in state.pending
        }
        total = sum(reference.bytes for id_, reference in needs.items() if id_ not in missing)
        exempt, commands = _exempt_from_limit(state), list[Command]()
        for id_, reference in missing.items():
            if id_ in exempt or total + reference.bytes <= LOADS_BYTES:
                total += reference.bytes
                state.pending[id_] = Pending("load", "")
                commands.append(LoadValue(id_, reference))
        return commands


def _values_needed(state: MachineState) -> dict[str, StoredRef]:
    """Return all values that a fact or reader waits for, by the id of the load; those of facts first."""
    facts = (deferral.needs for deferral in state.deferred)
    return {id_: reference for needs in (*facts, *state.readers.values()) for id_, reference in needs.items()}


def _exempt_from_limit(state: MachineState) -> set[str]:
    """Return the ids of loads that are requested even beyond ``LOADS_BYTES``."""
    facts = [deferral.needs for deferral in state.deferred[:1]]
    readers = [state.readers[name] for name in list(state.readers)[:1]]
    return {id_ for needs in (*facts, *readers) for id_ in needs}
