"""The tool postgres, and connections to Postgres for sinks and cursors."""
