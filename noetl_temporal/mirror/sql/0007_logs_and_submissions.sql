-- Tables that are not derived from history; a rebuild leaves them unchanged.

-- The output of the code of tasks, which workers store while it runs, with best effort (task_log.py). A row has the lines
-- that arrived together. position rises in the order of storing, except across concurrent transactions.
CREATE TABLE noetl.log (
    execution_id BIGINT NOT NULL,
    position     BIGINT GENERATED ALWAYS AS IDENTITY,
    time         TIMESTAMPTZ NOT NULL,
    step         TEXT NOT NULL,
    task         TEXT NOT NULL,
    iteration    INTEGER,
    page         INTEGER,
    attempt      INTEGER NOT NULL,
    stream       TEXT NOT NULL,
    text         TEXT NOT NULL,
    worker_id    TEXT NOT NULL,
    stored_at    TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (execution_id, position)
);
GRANT SELECT ON noetl.log TO PUBLIC;

-- Runs that were submitted with a key (submissions.py). playbook and payload are digests of what was submitted. is_started
-- is set once Temporal has confirmed the run: it is not started again, even if Temporal has removed it since.
CREATE TABLE noetl.submission (
    namespace    TEXT NOT NULL,
    path         TEXT NOT NULL,
    key          TEXT NOT NULL,
    execution_id BIGINT NOT NULL,
    playbook     TEXT NOT NULL,
    payload      TEXT NOT NULL,
    is_started   BOOLEAN NOT NULL DEFAULT false,
    created_at   TIMESTAMPTZ NOT NULL DEFAULT now(),
    PRIMARY KEY (namespace, path, key)
);
