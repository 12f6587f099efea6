"""The language of playbooks, as data: each fact is declared here once.

Front ends, JSON Schema, checks, forecast, preview, migration and the machine read these tables. The package imports
nothing of the compiler, and ``tests/compiler/test_facts_once.py`` fails if a fact is declared a second time.
"""
