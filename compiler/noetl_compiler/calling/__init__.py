"""Parts of the catalog: what a playbook requires and calls, and cycles of calls."""
