"""The secrets tool: checks that a secret exists, and returns a reference to it."""

from __future__ import annotations

from noetl_activities.errors import ConfigError
from noetl_activities.outcome import Outcome
from noetl_activities.tool import Json, Request, ToolContext
from noetl_activities.tool_spec import built_in
from noetl_compiler.language.keychain import SECRETS_ENTRY, SECRETS_TOOL

__all__ = ["TOOL", "SecretsTool"]

_FIELD = "value"


class SecretsTool:
    """The tool secrets. Its fields:

    ``provider, secret_name|name, version``.
    """

    spec = built_in(SECRETS_TOOL)

    async def run(self, request: Request, context: ToolContext) -> Outcome:
        """Return ``{secret_value, value}``, both the same reference. The secret is read, so that the call fails if it
        is missing, but its value does not leave the worker.
        """
        name = request.config.get("secret_name") or request.config.get("name")
        if not isinstance(name, str) or not name:
            raise ConfigError("a secrets task needs a secret_name")
        config: dict[str, Json] = {"provider": request.config.get("provider"), "map": {_FIELD: name}}
        reference = await context.secret(name, SECRETS_ENTRY, config)
        return Outcome("ok", {"secret_value": reference, "value": reference})


TOOL = SecretsTool()
