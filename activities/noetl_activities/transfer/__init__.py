"""The tool transfer: rows from one database to another."""
