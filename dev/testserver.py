"""The service that examples and tests call: ``python dev/testserver.py --port 5555``. Loopback only."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import uvicorn

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from dev.testapi.app import build_app  # a script has its own folder on the path, not the root


def main() -> None:
    """Serve until stopped."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=5555)
    uvicorn.run(
        build_app(), host="127.0.0.1", port=parser.parse_args().port, log_level="warning", timeout_graceful_shutdown=1
    )


if __name__ == "__main__":
    main()
