-- Attempts of calls in progress, from the pending activities that the server lists (running_calls.py). History has them only
-- when their call ends: then they become rows of noetl.event and are deleted here. The table is not derived from history; a
-- rebuild leaves it unchanged. status is STARTED, COMPLETED, FAILED, CANCELLED, PENDING (the attempt waits until due_at) or PAUSED (in
-- Temporal itself). task_event_id is the row that started the task.
CREATE TABLE noetl.running_attempt (
    namespace     TEXT NOT NULL,
    workflow_id   TEXT NOT NULL,
    run_id        TEXT NOT NULL,
    call_id       TEXT NOT NULL,
    attempt       INTEGER NOT NULL,
    execution_id  BIGINT NOT NULL,
    task_event_id BIGINT NOT NULL,
    step          TEXT NOT NULL,
    task          TEXT NOT NULL,
    tool          TEXT NOT NULL,
    iteration     INTEGER,
    page          INTEGER,
    status        TEXT NOT NULL,
    started_at    TIMESTAMPTZ,
    ended_at      TIMESTAMPTZ,
    due_at        TIMESTAMPTZ,
    error         TEXT,
    rule          INTEGER,
    delay         DOUBLE PRECISION,
    worker_id     TEXT,
    seen_at       TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (namespace, workflow_id, run_id, call_id, attempt)
);
CREATE INDEX running_attempt_execution ON noetl.running_attempt (execution_id);
GRANT SELECT ON noetl.running_attempt TO PUBLIC;
