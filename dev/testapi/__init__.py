"""The HTTP service that examples and tests call: pages, faults, load and patient records, all made up."""

from __future__ import annotations
