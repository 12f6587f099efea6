-- Pauses of calls in Temporal itself, by its UI or command. They are read from the server, as no history has them
-- (call_pauses.py). A rebuild derives rows of noetl.event from this table: task.paused with the id paused_event_id and, once
-- the call has continued, task.resumed with the id resumed_event_id.
CREATE TABLE noetl.call_pause (
    namespace        TEXT NOT NULL,
    workflow_id      TEXT NOT NULL,
    run_id           TEXT NOT NULL,
    call_id          TEXT NOT NULL,
    paused_at        TIMESTAMPTZ NOT NULL,
    execution_id     BIGINT NOT NULL,
    paused_event_id  BIGINT NOT NULL,
    resumed_at       TIMESTAMPTZ,
    resumed_event_id BIGINT,
    facts            JSONB NOT NULL,
    PRIMARY KEY (namespace, workflow_id, run_id, call_id, paused_at)
);
CREATE INDEX call_pause_execution ON noetl.call_pause (execution_id);
GRANT SELECT ON noetl.call_pause TO PUBLIC;

INSERT INTO noetl.event_name (event_type, legacy, domain) VALUES ('task.paused', NULL, NULL), ('task.resumed', NULL, NULL);
