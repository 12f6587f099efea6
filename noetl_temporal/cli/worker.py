"""``noetl worker``: serve task queues."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Literal

import click

from noetl_temporal.cli.arguments import HOST_AND_PORT, Seconds, read_amounts
from noetl_temporal.cli.connection import running_deployment
from noetl_temporal.cli.logging_setup import LOG_FORMATS, log_to_stderr

if TYPE_CHECKING:  # importing the SDK is slow
    from temporalio.worker import WorkerDeploymentConfig

    from noetl_temporal.worker_options import WorkerOptions

__all__ = ["worker_command"]


@click.command("worker")
@click.option("--tools", metavar="A,B", help="Serve only these tools. Default: all tools, and workflows.")
@click.option(
    "--grace",
    type=Seconds(),
    metavar="SECONDS",
    help="Seconds to wait for calls in progress when stopping. Default: unlimited.",
)
@click.option("--build-id", metavar="ID", help="Build of this worker: it serves the runs of this build only.")
@click.option("--deployment", metavar="NAME", help="Temporal deployment of the build. Default: noetl.")
@click.option(
    "--concurrency",
    multiple=True,
    metavar="TOOL=N",
    callback=read_amounts,
    help="Maximum concurrent calls of a tool. Default: 100; with --slots auto, 500.",
)
@click.option(
    "--slots",
    type=click.Choice(["fixed", "auto"]),
    default="fixed",
    show_default=True,
    help="auto: take calls while the machine has free memory and processors, up to --concurrency.",
)
@click.option(
    "--rate",
    multiple=True,
    metavar="TOOL=N",
    callback=read_amounts,
    help="Maximum calls started per second, over all workers of the tool's queue.",
)
@click.option("--autoscale", is_flag=True, help="Adapt the number of pollers to the load.")
@click.option(
    "--health", type=HOST_AND_PORT, help="Serve /healthz, /readyz and /metrics, for example on 127.0.0.1:9100."
)
@click.option(
    "--log-format", type=click.Choice(LOG_FORMATS), default="text", show_default=True, help="Format of the log."
)
def worker_command(
    tools: str | None,
    grace: float | None,
    build_id: str | None,
    deployment: str | None,
    concurrency: Mapping[str, float],
    slots: Literal["fixed", "auto"],
    rate: Mapping[str, float],
    autoscale: bool,
    health: tuple[str, int] | None,
    log_format: str,
) -> None:
    """Run playbooks and tools until stopped.

    SIGTERM or Ctrl-C stops it: it takes no new calls and waits for those in progress. Calls that have not ended after
    --grace are run again by another worker, and count neither as failed nor as lost. Until then it still serves
    workflows, so a cancel reaches its calls. A second signal stops it immediately.

    A run stays on the build it started on, and moves to a newer one when it is waiting only for timers. New runs use
    the current build: `temporal worker deployment set-current-version --deployment-name noetl --build-id ID`.

    Finds Temporal by TEMPORAL_ADDRESS or a profile of temporal.toml, else in this folder's stack.
    Credentials come from the file that NOETL_CREDENTIALS names and from NOETL_CREDENTIAL_<NAME>.
    With NOETL_SIGNING_KEY_FILE it runs only what was submitted with the same key. With NOETL_ENCRYPTION_KEYS it
    encrypts values, and decrypts those that were encrypted with one of these keys.

    \b
    noetl worker
    noetl worker --tools http,postgres --concurrency http=50 --rate http=20
    noetl worker --health 127.0.0.1:9100 --log-format json
    noetl worker --build-id 2026-11-22
    """
    from noetl_temporal.worker import UnknownToolsError

    served_kinds = None if tools is None else [name.strip() for name in tools.split(",") if name.strip()]
    if served_kinds == []:
        raise click.UsageError("--tools names no tool: omit it to serve workflows and all tools")
    build = _deployment_config(build_id, deployment)
    options = _options(grace, build, concurrency, rate, autoscales=autoscale, slots_by_load=slots == "auto")
    running_deployment()
    exporter = _log_and_export(log_format, is_exporting=health is not None)
    try:
        asyncio.run(_serve(served_kinds, grace, options, health, exporter))
    except UnknownToolsError as error:
        raise click.UsageError(str(error)) from None


def _deployment_config(build_id: str | None, deployment: str | None) -> WorkerDeploymentConfig | None:
    from noetl_temporal.workflows.versioning import DEPLOYMENT, BuildNameError, deployment_config

    if build_id is None and deployment is not None:
        raise click.UsageError("--deployment needs --build-id")
    try:
        return (
            None if build_id is None else deployment_config(build_id, DEPLOYMENT if deployment is None else deployment)
        )
    except BuildNameError as error:
        raise click.UsageError(str(error)) from None


def _options(
    grace: float | None,
    build: WorkerDeploymentConfig | None,
    concurrency: Mapping[str, float],
    rate: Mapping[str, float],
    *,
    autoscales: bool,
    slots_by_load: bool,
) -> WorkerOptions:
    from noetl_activities.tool import tool_kinds
    from noetl_temporal.worker import UNTIL_DONE
    from noetl_temporal.worker_options import WorkerOptions

    unknown = sorted({*concurrency, *rate} - set(tool_kinds()))
    if unknown:
        raise click.UsageError(f"no tool {', '.join(map(repr, unknown))}: there are {', '.join(sorted(tool_kinds()))}")
    if any(amount < 1 or amount != int(amount) for amount in concurrency.values()):
        raise click.UsageError("--concurrency takes whole numbers from 1")
    return WorkerOptions(
        grace=UNTIL_DONE if grace is None else min(UNTIL_DONE, timedelta(seconds=grace)),
        build=build,
        at_once={kind: int(amount) for kind, amount in concurrency.items()},
        per_second=rate,
        autoscales=autoscales,
        slots_by_load=slots_by_load,
    )


def _log_and_export(log_format: str, *, is_exporting: bool) -> str:
    """Configure the log; with ``is_exporting``, serve the SDK's metrics and return the address of its exporter."""
    from noetl_temporal.observability.health import free_address
    from noetl_temporal.observability.metrics import exporter

    address = free_address() if is_exporting else ""
    log_to_stderr(log_format, exporter(address) if address else None)
    return address


async def _serve(
    served_kinds: list[str] | None,
    grace: float | None,
    options: WorkerOptions,
    health: tuple[str, int] | None,
    exporter: str,
) -> None:
    from noetl_activities.isolation.probe import CONFINED_TOOLS, describe_isolation
    from noetl_activities.tool import load_tools
    from noetl_temporal.access import open_access_warning
    from noetl_temporal.cli.health import serve_optional_health
    from noetl_temporal.cli.stop_signals import stop_event
    from noetl_temporal.config import connect_temporal
    from noetl_temporal.observability.health import scrape_metrics
    from noetl_temporal.submission.credential_source import credential_source
    from noetl_temporal.worker import serving

    client = await connect_temporal()
    problem = open_access_warning(client)
    if problem is not None:
        click.echo(f"warning: {problem}", err=True)
    build = options.build
    build_text = f" as build {build.version.build_id} of {build.version.deployment_name}" if build else ""
    limit = "" if grace is None else f", at most {grace:g} s"
    description = ", ".join(served_kinds) if served_kinds else "workflows and all tools"
    if health is not None:
        options = _with_metrics(options)
    with stop_event() as stop_request:
        async with (
            serve_optional_health(health, client, stop_request, description, partial(scrape_metrics, exporter)),
            serving(client, load_tools(), credential_source(), served_kinds, options),
        ):
            click.echo(f"serving {description}{build_text}; Ctrl-C stops")
            if served_kinds is None or not CONFINED_TOOLS.isdisjoint(served_kinds):
                click.echo(await describe_isolation())
            await stop_request.wait()
            click.echo(f"stopping: waiting for calls to end{limit}; Ctrl-C again stops immediately")


def _with_metrics(options: WorkerOptions) -> WorkerOptions:
    """Return the options of a worker that exports metrics."""
    from temporalio.runtime import Runtime

    from noetl_temporal.observability.metrics import MetricsInterceptor

    return replace(options, interceptors=[MetricsInterceptor(Runtime.default().metric_meter)])
