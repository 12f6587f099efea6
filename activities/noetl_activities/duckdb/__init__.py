"""The tool duckdb: one process for each database file."""
