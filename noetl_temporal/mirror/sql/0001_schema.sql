-- The event schema of NoETL (names, columns, CHECK, keys), without partitions, which no reader names. After it the tables
-- of the mirror: raw history, a cursor for each run, large payloads.

CREATE SEQUENCE noetl.snowflake_seq;

CREATE FUNCTION noetl.snowflake_id() RETURNS BIGINT LANGUAGE sql VOLATILE AS $$
    SELECT ((extract(epoch FROM clock_timestamp()) * 1000)::bigint - 1704067200000) << 23
           | (1::bigint << 18)
           | nextval('noetl.snowflake_seq') % 1024
$$;

CREATE TABLE noetl.resource (
    name TEXT PRIMARY KEY,
    meta JSONB
);
INSERT INTO noetl.resource (name) VALUES ('playbook'), ('credential'), ('mcp'), ('agent'), ('memory');

CREATE TABLE noetl.catalog (
    catalog_id    BIGINT PRIMARY KEY DEFAULT noetl.snowflake_id(),
    path          TEXT NOT NULL,
    version       SMALLINT NOT NULL,
    kind          VARCHAR NOT NULL REFERENCES noetl.resource(name),
    content       TEXT,
    layout        JSONB,
    payload       JSONB,
    meta          JSONB,
    created_at    TIMESTAMP NOT NULL DEFAULT (now() AT TIME ZONE 'utc'),
    credential_id INTEGER,
    UNIQUE (path, version)
);

CREATE TABLE noetl.execution (
    execution_id        BIGINT PRIMARY KEY,
    catalog_id          BIGINT NOT NULL REFERENCES noetl.catalog(catalog_id),
    parent_execution_id BIGINT,
    status              VARCHAR NOT NULL,
    last_event_type     VARCHAR,
    last_node_name      VARCHAR,
    last_event_id       BIGINT,
    start_time          TIMESTAMP,
    end_time            TIMESTAMP,
    error               TEXT,
    created_at          TIMESTAMP NOT NULL DEFAULT (now() AT TIME ZONE 'utc'),
    updated_at          TIMESTAMP NOT NULL DEFAULT (now() AT TIME ZONE 'utc'),
    state               JSONB,
    events              BIGINT NOT NULL DEFAULT 0 -- the position of its last event
);
CREATE INDEX execution_start_time ON noetl.execution (start_time DESC);
CREATE INDEX execution_parent ON noetl.execution (parent_execution_id);

CREATE TABLE noetl.event (
    execution_id        BIGINT,
    catalog_id          BIGINT NOT NULL REFERENCES noetl.catalog(catalog_id),
    event_id            BIGINT,
    parent_event_id     BIGINT,
    parent_execution_id BIGINT,
    created_at          TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
    event_type          VARCHAR,
    node_id             VARCHAR,
    node_name           VARCHAR,
    node_type           VARCHAR,
    status              VARCHAR,
    duration            DOUBLE PRECISION,
    context             JSONB,
    result              JSONB,
    meta                JSONB,
    error               TEXT,
    current_index       INTEGER,
    current_item        TEXT,
    worker_id           VARCHAR,
    distributed_state   VARCHAR,
    context_key         VARCHAR,
    context_value       TEXT,
    trace_component     JSONB,
    stack_trace         TEXT,
    tenant_id           TEXT NOT NULL DEFAULT 'default',
    organization_id     TEXT NOT NULL DEFAULT 'default',
    stream_id           TEXT,
    stream_version      BIGINT,
    aggregate_id        TEXT,
    aggregate_type      TEXT,
    schema_name         TEXT,
    schema_version      INTEGER NOT NULL DEFAULT 1,
    event_time          TIMESTAMPTZ NOT NULL DEFAULT now(),
    ingest_time         TIMESTAMPTZ NOT NULL DEFAULT now(),
    producer            TEXT,
    causation_id        TEXT,
    correlation_id      TEXT,
    idempotency_key     TEXT,
    payload_ref         JSONB,
    envelope_checksum   TEXT,
    prev_event_id       BIGINT,
    command_id          BIGINT,
    stage_id            BIGINT,
    frame_id            BIGINT,
    position            BIGINT NOT NULL, -- rises in the order of storing, for readers that tail an execution
    CONSTRAINT chk_event_result_shape CHECK (
        result IS NULL OR (
            jsonb_typeof(result) = 'object'
            AND result ? 'status' AND jsonb_typeof(result->'status') = 'string'
            AND (result - 'status' - 'reference' - 'context') = '{}'::jsonb
            AND (NOT (result ? 'reference') OR jsonb_typeof(result->'reference') = 'object')
            AND (NOT (result ? 'context')   OR jsonb_typeof(result->'context')   = 'object'))),
    PRIMARY KEY (execution_id, event_id)
);
CREATE UNIQUE INDEX event_idempotency_key ON noetl.event (idempotency_key);
CREATE INDEX event_by_type ON noetl.event (execution_id, event_type, event_id DESC);
CREATE INDEX event_by_parent ON noetl.event (parent_event_id);
CREATE INDEX event_by_node ON noetl.event (execution_id, node_name);
CREATE UNIQUE INDEX event_by_position ON noetl.event (execution_id, position);
CREATE INDEX event_by_created_at ON noetl.event (created_at DESC);

-- Temporal's history as the server gave it: append-only, without gaps, enough to derive noetl.event again.
CREATE TABLE noetl.history (
    namespace   TEXT NOT NULL,
    workflow_id TEXT NOT NULL,
    run_id      TEXT NOT NULL,
    event_id    BIGINT NOT NULL,
    event_type  TEXT NOT NULL,
    event_time  TIMESTAMPTZ NOT NULL,
    proto       BYTEA NOT NULL,
    PRIMARY KEY (namespace, workflow_id, run_id, event_id)
);

-- How far a run has been read; moves in the transaction that stores the rows. state is that of the fold
-- (run_state.RunState). problem says why reading stopped, until it continues.
CREATE TABLE noetl.cursor (
    namespace     TEXT NOT NULL,
    workflow_id   TEXT NOT NULL,
    run_id        TEXT NOT NULL,
    workflow_type TEXT NOT NULL,
    position      BIGINT NOT NULL DEFAULT 0,
    is_closed     BOOLEAN NOT NULL DEFAULT false,
    state         JSONB,
    problem       TEXT,
    updated_at    TIMESTAMPTZ NOT NULL DEFAULT now(),
    PRIMARY KEY (namespace, workflow_id, run_id)
);
CREATE INDEX cursor_open ON noetl.cursor (namespace) WHERE NOT is_closed;

-- Payloads too large for history (claim check).
CREATE TABLE noetl.payload (
    key        TEXT PRIMARY KEY,
    data       BYTEA NOT NULL,
    created_at TIMESTAMPTZ NOT NULL DEFAULT now()
);
