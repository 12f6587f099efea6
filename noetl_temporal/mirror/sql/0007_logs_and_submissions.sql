-- What is written beside the event log: not derived from history, and kept by a rebuild.

-- What the code of tasks prints, as it prints it (task_log.py): best effort, by the workers. A row has the lines that came
-- together. position rises in the order of storing, but for transactions that take long.
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

-- Runs that were submitted under a key (submissions.py). playbook and payload are digests of what was submitted. is_started
-- once Temporal has confirmed the run: then it is not started again, even where Temporal has removed it.
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
