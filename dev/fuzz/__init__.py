"""Fuzzing of the compiler by seeded mutation: ``python -m dev.fuzz playbooks --minutes 10``."""
