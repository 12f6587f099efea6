-- Attempts of calls that are in progress: what the server tells of pending activities (running_calls.py). History has them when
-- their call ends; then they are rows of noetl.event, and leave this table. It is not derived from history, and a rebuild leaves it.
-- status is STARTED, FAILED, CANCELLED or, for an attempt that waits until due_at, PENDING; PAUSED for one that was paused in Temporal
-- itself. task_event_id is the row that began the task.
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
