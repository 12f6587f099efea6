"""Prepares a cluster: registers search attributes in its Temporal namespace and creates tables in its Postgres.

Running it again changes nothing. A managed Temporal does not allow registering search attributes over this API; for
that case ``registration_commands`` returns commands.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest, ListSearchAttributesRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from noetl_temporal.database_errors import DATABASE_ERRORS
from noetl_temporal.deployment import DeploymentError, postgres_error
from noetl_temporal.mirror.migrations import migrate
from noetl_temporal.search_attributes import SEARCH_ATTRIBUTES
from noetl_temporal.temporal_errors import rpc_error

__all__ = ["RegistrationRefusedError", "register_search_attributes", "registration_commands", "set_up_postgres"]

VISIBLE_SECONDS = 60.0
"""How long it may take until queries can use an attribute that was registered: the server's services cache the list."""

_VALUE_TYPES = {"Keyword": IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD, "Int": IndexedValueType.INDEXED_VALUE_TYPE_INT}
_REFUSED_STATUSES = {RPCStatusCode.PERMISSION_DENIED, RPCStatusCode.UNIMPLEMENTED, RPCStatusCode.UNAUTHENTICATED}


class RegistrationRefusedError(Exception):
    """This Temporal does not allow listing or registering search attributes over its API."""


async def register_search_attributes(client: Client) -> list[str]:
    """Register the missing search attributes, and wait until queries can use them. Returns their names.

    Raises RegistrationRefusedError, DeploymentError.
    """
    try:
        request = ListSearchAttributesRequest(namespace=client.namespace)
        existing_types = (await client.operator_service.list_search_attributes(request)).custom_attributes
        _check_types(existing_types)
        missing = [name for name in SEARCH_ATTRIBUTES if name not in existing_types]
        if missing:
            types = {name: _VALUE_TYPES[SEARCH_ATTRIBUTES[name]] for name in missing}
            add_request = AddSearchAttributesRequest(search_attributes=types, namespace=client.namespace)
            await client.operator_service.add_search_attributes(add_request)
        await _wait_until_usable(client)
    except RPCError as error:
        if error.status in _REFUSED_STATUSES:
            raise RegistrationRefusedError(error.message) from error
        raise rpc_error(error, client.namespace) or error from error
    return missing


def _check_types(existing_types: Mapping[str, int]) -> None:
    for name, type_ in SEARCH_ATTRIBUTES.items():
        if name in existing_types and existing_types[name] != _VALUE_TYPES[type_]:
            raise DeploymentError(
                f"the search attribute {name} exists with another type: it must be {type_}; "
                f"remove it (temporal operator search-attribute remove --name {name}) and run `noetl setup` again"
            )


async def _wait_until_usable(client: Client) -> None:
    query = " AND ".join(
        f"{name} = {'0' if type_ == 'Int' else repr('-')}" for name, type_ in SEARCH_ATTRIBUTES.items()
    )
    deadline = asyncio.get_running_loop().time() + VISIBLE_SECONDS
    while True:
        try:
            await client.count_workflows(query)
        except RPCError as error:
            if error.status is not RPCStatusCode.INVALID_ARGUMENT or asyncio.get_running_loop().time() > deadline:
                raise
            await asyncio.sleep(0.2)
        else:
            return


def registration_commands(namespace: str) -> list[str]:
    """Return the commands that register the search attributes: of a self-hosted server's operator, and of Temporal
    Cloud.
    """
    self_hosted = " ".join(f"--name {name} --type {type_}" for name, type_ in SEARCH_ATTRIBUTES.items())
    cloud = " ".join(f"--search-attribute '{name}={type_}'" for name, type_ in SEARCH_ATTRIBUTES.items())
    return [
        f"temporal operator search-attribute create --namespace {namespace} {self_hosted}",
        f"tcld namespace search-attributes add --namespace {namespace} {cloud}",
    ]


async def set_up_postgres(dsn: str) -> list[str]:
    """Apply the missing migrations. Returns their names. Raises DeploymentError."""
    try:
        return await migrate(dsn)
    except (ValueError, *DATABASE_ERRORS) as error:
        raise postgres_error(error, dsn) from error
