"""``noetl codec-server``: decrypt values for Temporal's Web UI."""

from __future__ import annotations

import asyncio
import os
from ipaddress import ip_address

import click

from noetl_temporal.cli.connection import running_deployment
from noetl_temporal.cli.logging_setup import log_to_stderr

__all__ = ["TOKEN_VARIABLE", "codec_server_command"]

TOKEN_VARIABLE = "NOETL_CODEC_TOKEN"  # noqa: S105 - a name
"""The access token of the codec server."""


@click.command("codec-server")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8081,
    show_default=True,
    help="Port to listen on; 0 for any free port.",
)
@click.option("--origin", metavar="URL", help="Origin of the Web UI. Default: that of this folder's stack.")
@click.option("--host", metavar="ADDRESS", default="127.0.0.1", show_default=True, help="IP address to listen on.")
@click.option("--allow-remote", is_flag=True, help="Allow a --host that other machines can reach.")
def codec_server_command(port: int, origin: str | None, host: str, allow_remote: bool) -> None:
    """Decrypt values for Temporal's Web UI and the temporal command until stopped.

    Enter the URL that it prints in the Web UI (the glasses icon, Data Encoder), or pass it to temporal with
    --codec-endpoint. It has the keys of NOETL_ENCRYPTION_KEYS or NOETL_ENCRYPTION_VAULT, and reads large values from
    the Postgres of NOETL_POSTGRES or of this folder's stack.

    With NOETL_CODEC_TOKEN, requests must send this token: Authorization: Bearer TOKEN. It has no TLS: to
    serve other machines, put a proxy in front of it that has.

    \b
    noetl codec-server
    noetl codec-server --origin https://temporal.example.com
    """
    token = os.environ.get(TOKEN_VARIABLE)
    _check_address(host, token, allow_remote=allow_remote)
    deployment = running_deployment()
    ui_url = origin or deployment.ui_url
    if not ui_url:
        raise click.UsageError("--origin is required: the URL where you open the Web UI, such as http://localhost:8233")
    log_to_stderr()
    asyncio.run(_serve(host, port, _origin_of(ui_url), token))


def _check_address(host: str, token: str | None, *, allow_remote: bool) -> None:
    try:
        is_loopback = ip_address(host).is_loopback
    except ValueError:
        raise click.UsageError(f"--host must be an IP address, not {host!r}") from None
    if is_loopback:
        return
    if not allow_remote:
        raise click.UsageError(f"other machines may reach {host}: --allow-remote is needed for that")
    if not token:
        raise click.UsageError(f"--allow-remote needs an access token: set {TOKEN_VARIABLE} (`openssl rand -hex 32`)")


def _origin_of(url: str) -> str:
    """Scheme, host and port, as browsers send it."""
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise click.UsageError(f"--origin must be a URL such as http://localhost:8233, not {url!r}")
    return f"{parts.scheme}://{parts.netloc}"


async def _serve(host: str, port: int, origin: str, token: str | None) -> None:
    from noetl_temporal.cli.stop_signals import stop_event
    from noetl_temporal.config import reading_converter
    from noetl_temporal.deployment import DeploymentError
    from noetl_temporal.inspection.codec_server import Access, serving_codec

    converter = await reading_converter()
    with stop_event() as stop_request:
        try:
            async with serving_codec(converter, Access(origin, token), host, port) as url:
                click.echo(f"codec server for {origin}: {url}; Ctrl-C stops")
                if converter.payload_codec is None:
                    click.echo("no encryption keys are set: it only reads large values and event trails")
                await stop_request.wait()
        except OSError as error:
            raise DeploymentError(f"cannot listen on {host}:{port}: {error.strerror}") from error
