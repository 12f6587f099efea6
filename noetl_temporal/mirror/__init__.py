"""Temporal's history as NoETL's event log in Postgres. Reads history alone and never runs the interpreter.

``service`` finds the runs, ``follow`` reads one, ``store`` writes what was read, and ``rows`` is the pure function
from history events to event rows; ``read`` answers questions about the log.
"""

from __future__ import annotations
