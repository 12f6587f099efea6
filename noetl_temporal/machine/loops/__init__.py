"""A loop's run: its items, its iterations, what came of them."""
