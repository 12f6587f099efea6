"""From a playbook to a run: the catalog, checks before a run starts, schedules."""
