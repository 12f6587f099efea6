"""Tests of playbooks (``noetl test``): the real machine, attempts and sinks, with stubbed calls and a virtual clock."""
