"""``python -m noetl_temporal.cli`` is ``noetl``."""

from __future__ import annotations

from noetl_temporal.cli.main import main

main()
