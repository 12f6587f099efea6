"""The workflows: they feed facts to a machine and perform its commands."""
