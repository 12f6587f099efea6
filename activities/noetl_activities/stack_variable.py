"""The variable that names the stack's own ports, apart from what refuses them (stack_ports.py): each command of the
stack names it, and needs no HTTP client for that.
"""

from __future__ import annotations

__all__ = ["PORTS_VARIABLE"]

PORTS_VARIABLE = "NOETL_STACK_PORTS"
"""Numbers, by comma."""
