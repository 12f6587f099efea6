"""What the language of playbooks is made of, as data: each fact is declared here once.

Front ends, JSON Schema, checks, forecast, preview, migration and the machine read these tables. The package imports
nothing of the compiler, and ``tests/compiler/test_facts_once.py`` fails where a fact is declared a second time.
"""
