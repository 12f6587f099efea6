"""A strict parser of Postgres DSNs: ``postgresql://USER:PASSWORD@HOST:PORT/DATABASE?sslmode=require``.

If a password contains ``/``, ``@`` or ``#`` without percent-encoding, the DSN is ambiguous, and a part of the password
may be parsed as the host, port or database. So ambiguous DSNs are refused, and errors contain only the position, no
part of the DSN. In an accepted DSN, no other part contains a part of the password.
"""

from __future__ import annotations

import re
from urllib.parse import parse_qs, unquote

__all__ = ["DEFAULT_PORT", "DsnError", "dsn_fields", "dsn_location", "dsn_password", "dsn_servers"]

_DSN_PATTERN = re.compile(
    r"""postgres(?:ql)?://
    (?:(?P<user>[^:@/?\#\s]*) (?: :(?P<password>[^@/?\#\s]*) )? @)?
    (?P<hosts>[^@/?\#\s]*)
    (?: /(?P<database>[^@/?\#\s]*) )?
    (?: \?(?P<query>[^@\#\s]*) )?""",
    re.VERBOSE,
)
_HOST = re.compile(r"(?P<host>[\w.-]+|%2[fF][\w.%-]*|\[[0-9a-fA-F:.]+\])(?::(?P<port>\d{1,5}))?")
_HOST_PARAMETER = re.compile(r"(?:^|&)host=([^&]*)")
_ADVICE = "percent-encode all characters of the user and the password other than letters and digits"

DEFAULT_PORT = "5432"
_PARAMETER_ALIASES = {"dbname": "database"}
_PARAMETERS = frozenset({"host", "port", "user", "password", "database", "sslmode", "sslrootcert"})
SETTINGS = frozenset({"application_name", "lock_timeout", "options", "search_path", "statement_timeout"})
"""The parameters that are settings of the session."""


class DsnError(ValueError):
    """The DSN is invalid. The message has the position, but no text of the DSN."""


def dsn_fields(dsn: str) -> dict[str, str]:
    """Return the parts of a DSN: host and port (several separated by commas), user, password, database, sslmode,
    sslrootcert, and settings of the session. Raises DsnError.
    """
    parts = _parse(dsn)
    hosts = _hosts(parts)
    fields = {
        "host": ",".join(host for host, _ in hosts),
        "port": ",".join(port or DEFAULT_PORT for _, port in hosts),
        **{name: unquote(parts[name] or "") for name in ("user", "password", "database")},
    }
    present = {name: value for name, value in fields.items() if value.strip(",")}
    return {**_parameters(parts), **present}


def dsn_password(dsn: str) -> str | None:
    """Return the password in a DSN, even if the DSN is invalid; None if there is none."""
    match = re.search(r"://[^:/?#@\s]*:(.*)@", dsn, re.DOTALL)
    return match[1] if match else None


def dsn_location(dsn: str) -> str:
    """Return ``HOST:PORT/DATABASE``, without the parts that are missing. Raises DsnError."""
    parts = _parse(dsn)
    _hosts(parts)
    parameter = _HOST_PARAMETER.search(parts["query"] or "")
    host = parts["hosts"] or (parameter[1] if parameter else "")
    return unquote(host) + (f"/{unquote(parts['database'])}" if parts["database"] else "")


def dsn_servers(dsn: str) -> list[tuple[str, int]]:
    """Return (host, port) of each server that the DSN may connect to over TCP. Raises DsnError."""
    parts = _parse(dsn)
    query = parse_qs(parts["query"] or "")
    query_hosts = [(host, "") for host in ",".join(query.get("host", [])).split(",") if host]
    default_ports = [port for port in ",".join(query.get("port", [])).split(",") if port.isdecimal()] or [DEFAULT_PORT]
    return [
        (host, int(port_text))
        for host, port in [*_hosts(parts), *query_hosts]
        if not host.startswith("/")
        for port_text in ([port] if port else default_ports)
    ]


def _parse(dsn: str) -> re.Match[str]:
    match = _DSN_PATTERN.match(dsn)
    if match is None:
        raise DsnError("it does not begin with postgresql://")
    if match.end() != len(dsn):
        raise DsnError(f"it cannot be parsed from character {match.end() + 1} on: {_ADVICE}")
    return match


def _hosts(match: re.Match[str]) -> list[tuple[str, str]]:
    """Return (host, port) of each host; a missing port is "". Empty if the DSN has no hosts."""
    if not match["hosts"]:
        return []
    hosts: list[tuple[str, str]] = []
    for text in match["hosts"].split(","):
        host = _HOST.fullmatch(text)
        if host is None or int(host["port"] or 1) not in range(1, 65536):
            raise DsnError(
                f"the host and port at character {match.start('hosts') + 1} are not HOST or HOST:PORT: {_ADVICE}"
            )
        hosts.append((unquote(host["host"]).strip("[]"), host["port"] or ""))
    return hosts


def _parameters(match: re.Match[str]) -> dict[str, str]:
    fields: dict[str, str] = {}
    for number, pair in enumerate((match["query"] or "").split("&") if match["query"] else (), 1):
        name, equals, value = pair.partition("=")
        name = _PARAMETER_ALIASES.get(name, name)
        if not equals or name not in _PARAMETERS | SETTINGS:
            known_parameters = ", ".join(sorted(_PARAMETERS | SETTINGS))
            raise DsnError(f"parameter {number} after the ? is unknown: there are {known_parameters}")
        fields[name] = unquote(value)
    return fields
