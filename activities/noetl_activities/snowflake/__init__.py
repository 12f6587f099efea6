"""The tool snowflake."""
