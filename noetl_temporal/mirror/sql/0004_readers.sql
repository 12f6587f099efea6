-- A role that may use the schema (GRANT USAGE ON SCHEMA noetl) reads the events and what they refer to. Raw history, large
-- values and cursors are readable only by the roles that write the log.
GRANT SELECT ON noetl.event, noetl.event_log, noetl.event_name, noetl.event_legacy, noetl.event_domain TO PUBLIC;
GRANT SELECT ON noetl.execution, noetl.catalog, noetl.resource TO PUBLIC;
