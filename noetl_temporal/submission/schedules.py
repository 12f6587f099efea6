"""Runs registered playbooks on Temporal's schedules (semantics.md 46, dev/decisions/0058).

A schedule of ``path@version`` is pinned. A schedule of a path without a version follows it: after a newer version is
registered, the next runs are of that version. The input of a schedule contains the whole playbook, so its runs do not
need the catalog.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionExecutionStartWorkflow,
    ScheduleActionStartWorkflow,
    ScheduleAlreadyRunningError,
    ScheduleBackfill,
    ScheduleDescription,
    ScheduleHandle,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleState,
    ScheduleUpdate,
    ScheduleUpdateInput,
)
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from noetl_temporal.messages.run_input import Playbook, RunInput
from noetl_temporal.naming import OVERLAPS, PLAYBOOK_WORKFLOW, WORKFLOW_QUEUE, Overlap, keyword, scheduled_workflow_id
from noetl_temporal.payloads.codec import schedule_converter
from noetl_temporal.queues import resolved_queues
from noetl_temporal.search_attributes import (
    EXECUTION_ID,
    PATH,
    VERSION,
    attributes_of_run,
    attributes_of_schedule,
)
from noetl_temporal.submission.schedule_errors import times_error
from noetl_temporal.submission.schedule_types import (
    PlaybookSchedule,
    ScheduledRun,
    ScheduleError,
    ScheduleInput,
    ScheduleMemo,
    ScheduleTimes,
)
from noetl_temporal.temporal_errors import rpc_error
from noetl_temporal.visibility import literal
from noetl_temporal.workflows.priorities import priority_of
from noetl_temporal.workflows.ui_summary import playbook_details, playbook_summary

__all__ = ["TemporalSchedules"]

MAX_NAME_CHARACTERS = 200

_MEMO = "noetl-schedule"
_NO_REASON = "no reason was given"
_LIST_HINT = "`noetl schedule list` shows all schedules"


class TemporalSchedules:
    """The schedules of a namespace."""

    def __init__(self, temporal: Client) -> None:
        self._temporal = temporal

    async def add(
        self,
        run: RunInput,
        playbook: Playbook,
        version: int,
        times: ScheduleTimes,
        *,
        follows: bool,
        overlap: Overlap,
        catch_up: timedelta,
        is_paused: bool,
    ) -> None:
        """Add the schedule named ``run.schedule``. Raises ScheduleError, DeploymentError."""
        name = run.schedule
        if not _is_valid_name(name):
            raise ScheduleError(f"the name of a schedule has 1 to {MAX_NAME_CHARACTERS} printable characters")
        schedule = Schedule(
            await self._action(ScheduleInput(run, playbook)),
            times.spec(),
            SchedulePolicy(overlap=ScheduleOverlapPolicy[overlap.upper()], catchup_window=catch_up),
            ScheduleState(paused=is_paused),
        )
        async with self._translated_errors(name, times):
            try:
                await self._temporal.create_schedule(
                    name,
                    schedule,
                    memo={_MEMO: ScheduleMemo(run.path, times, follows)},
                    search_attributes=attributes_of_schedule(run.path, version),
                )
            except ScheduleAlreadyRunningError:
                raise ScheduleError(
                    f"there is a schedule {name!r} already: delete it (noetl schedule delete {name}), "
                    "or choose another name"
                ) from None

    async def _action(self, schedule_input: ScheduleInput) -> ScheduleActionStartWorkflow:
        """Return the action of a schedule. Its arguments are encoded here, as they must be signed together: the SDK
        would encode them one by one.
        """
        graph, id_ = schedule_input.playbook.graph, scheduled_workflow_id(schedule_input.run.schedule)
        converter = schedule_converter(self._temporal.data_converter, self._temporal.namespace, id_)
        return ScheduleActionStartWorkflow(
            PLAYBOOK_WORKFLOW,
            args=await converter.encode([*schedule_input]),
            id=id_,
            task_queue=WORKFLOW_QUEUE,
            typed_search_attributes=attributes_of_run(
                schedule_input.run.path, schedule_input.run.version, schedule_input.run.execution_id
            ),
            static_summary=playbook_summary(graph),
            static_details=playbook_details(graph),
            priority=priority_of(graph),
        )

    async def _input(self, name: str, description: ScheduleDescription) -> ScheduleInput:
        converter = schedule_converter(
            self._temporal.data_converter, self._temporal.namespace, scheduled_workflow_id(name)
        )
        action = description.schedule.action
        assert isinstance(action, ScheduleActionStartWorkflow)  # noqa: S101 - Temporal has no other
        return ScheduleInput(*await converter.decode(list(action.args), [RunInput, Playbook]))

    async def list_all(self, path: str | None = None) -> list[PlaybookSchedule]:
        """Return the schedules of the namespace, or of a path, sorted by name. Raises DeploymentError."""
        query = None if path is None else f"{PATH.name} = {literal(keyword(path))}"
        async with self._translated_errors(""):
            names = [schedule.id async for schedule in await self._temporal.list_schedules(query)]
        schedules = await asyncio.gather(*map(self._read, sorted(names)))
        return [schedule for schedule in schedules if schedule is not None and path in (None, schedule.path)]

    async def get(self, name: str) -> PlaybookSchedule:
        """Return a schedule. Raises ScheduleError, DeploymentError."""
        schedule = await self._read(name)
        if schedule is None:
            raise ScheduleError(f"there is no schedule {name!r} of a playbook: {_LIST_HINT}")
        return schedule

    async def _read(self, name: str) -> PlaybookSchedule | None:
        """Return a schedule; None if it was not created by NoETL, or has been deleted."""
        try:
            async with self._translated_errors(name):
                description = await self._handle(name).describe()
                memo = await description.memo_value(_MEMO, None, type_hint=ScheduleMemo)
                return None if memo is None else await self._to_schedule(name, description, memo)
        except (_NoScheduleError, ApplicationError, msgspec.ValidationError):
            return None

    async def _to_schedule(self, name: str, description: ScheduleDescription, memo: ScheduleMemo) -> PlaybookSchedule:
        schedule, info = description.schedule, description.info
        starts = [(recent.scheduled_at, recent.action) for recent in info.recent_actions]
        runs = [
            self._scheduled_run(time, action)
            for time, action in starts
            if isinstance(action, ScheduleActionExecutionStartWorkflow)
        ]
        return PlaybookSchedule(
            name,
            memo.path,
            _version(description),
            memo.follows,
            memo.times,
            OVERLAPS[schedule.policy.overlap - 1],
            schedule.policy.catchup_window or timedelta(),
            schedule.state.paused,
            schedule.state.note or "",
            await self._payload(name, description),
            tuple(time.astimezone(UTC) for time in info.next_action_times),
            tuple(await asyncio.gather(*runs)),
            info.num_actions,
            info.num_actions_missed_catchup_window,
            info.num_actions_skipped_overlap,
        )

    async def _payload(self, name: str, description: ScheduleDescription) -> dict[str, Any] | None:
        try:
            return (await self._input(name, description)).run.payload
        except (ApplicationError, RuntimeError):  # raised by our converter; by the SDK without a payload store
            return None

    async def _scheduled_run(self, time: datetime, action: ScheduleActionExecutionStartWorkflow) -> ScheduledRun:
        started = self._temporal.get_workflow_handle(action.workflow_id, run_id=action.first_execution_run_id)
        try:
            attributes = (await started.describe()).typed_search_attributes
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            return ScheduledRun(time, action.workflow_id, None)
        return ScheduledRun(time, action.workflow_id, attributes.get(EXECUTION_ID))

    async def move(self, name: str, version: int, playbook: Playbook) -> int | None:
        """Move a schedule to a newer version, of which its next runs will be. Returns the previous version; None,
        without a change, if that is not older. Raises ScheduleError, DeploymentError.
        """
        previous_versions: list[int] = []

        async def update(current: ScheduleUpdateInput) -> ScheduleUpdate | None:
            description = current.description
            if _version(description) >= version:
                return None
            previous_versions.append(_version(description))
            source = playbook.graph.source
            run = (await self._input(name, description)).run
            run = msgspec.structs.replace(
                run,
                version=source.version,
                digest=playbook.graph.digest,
                queues=resolved_queues([playbook.graph, *playbook.calls.graphs], run.queues),
            )
            description.schedule.action = await self._action(ScheduleInput(run, playbook))
            return ScheduleUpdate(description.schedule, attributes_of_schedule(source.path, version))

        async with self._translated_errors(name):
            await self._handle(name).update(update)
        return previous_versions[0] if previous_versions else None

    async def pause(self, name: str, note: str | None = None) -> None:
        """Pause the schedule. Without a note, a schedule that is already paused keeps its note. Raises ScheduleError,
        DeploymentError."""
        if note is None and (schedule := await self._read(name)) is not None and schedule.is_paused:
            return
        await self._call(name, self._handle(name).pause(note=note or _NO_REASON))

    async def resume(self, name: str, note: str | None = None) -> None:
        """Resume a paused schedule. Raises ScheduleError, DeploymentError."""
        await self._call(name, self._handle(name).unpause(note=note or _NO_REASON))

    async def trigger(self, name: str, overlap: Overlap | None = None) -> None:
        """Start a run now, by the schedule's policy unless another is given. Raises ScheduleError, DeploymentError."""
        await self._call(name, self._handle(name).trigger(overlap=_policy(overlap)))

    async def backfill(self, name: str, start: datetime, end: datetime, overlap: Overlap | None = None) -> None:
        """Start the runs of a period in the past. Raises ScheduleError, DeploymentError."""
        await self._call(name, self._handle(name).backfill(ScheduleBackfill(start, end, _policy(overlap))))

    async def delete(self, name: str) -> None:
        """Delete a schedule; its runs continue. Raises ScheduleError, DeploymentError."""
        await self._call(name, self._handle(name).delete())

    async def _call(self, name: str, request: Awaitable[None]) -> None:
        async with self._translated_errors(name):
            await request

    def _handle(self, name: str) -> ScheduleHandle:
        if not _is_valid_name(name):
            raise _NoScheduleError(f"there is no schedule {name!r:.200}: {_LIST_HINT}")
        return self._temporal.get_schedule_handle(name)

    @asynccontextmanager
    async def _translated_errors(self, name: str, times: ScheduleTimes | None = None) -> AsyncGenerator[None]:
        try:
            yield
        except RPCError as error:
            problem = rpc_error(error, self._temporal.namespace)
            if problem is None and error.status is RPCStatusCode.NOT_FOUND:
                raise _NoScheduleError(f"there is no schedule {name!r}: {_LIST_HINT}") from error
            if problem is None and error.status is RPCStatusCode.INVALID_ARGUMENT:
                reason = times_error(error.message, times) if times is not None else None
                raise ScheduleError(reason or f"Temporal refuses the schedule: {error.message}") from error
            raise problem or error from error


class _NoScheduleError(ScheduleError):
    """There is no schedule with this name."""


def _is_valid_name(name: str) -> bool:
    return 0 < len(name) <= MAX_NAME_CHARACTERS and name.isprintable()


def _policy(overlap: Overlap | None) -> ScheduleOverlapPolicy | None:
    return None if overlap is None else ScheduleOverlapPolicy[overlap.upper()]


def _version(description: ScheduleDescription) -> int:
    version = description.typed_search_attributes.get(VERSION) or ""
    return int(version) if version.isdecimal() else 0
