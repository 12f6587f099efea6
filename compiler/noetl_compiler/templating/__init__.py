"""Inside of templates.py: the sandbox, its budgets, and what is known of a template without running it."""
