"""Parts of templates.py: the sandbox, its budgets, and the static analysis of templates."""
