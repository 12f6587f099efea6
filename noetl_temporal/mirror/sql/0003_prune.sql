-- What `noetl prune` needs: the owners of payloads, when payloads were last stored, and the executions it has released.

-- used_at is updated when an existing payload is stored again (payload_store.py).
ALTER TABLE noetl.payload ADD COLUMN used_at TIMESTAMPTZ NOT NULL DEFAULT now();

-- An execution owns the payloads that its history refers to. Filled in the transaction that stores that history.
CREATE TABLE noetl.payload_owner (
    execution_id BIGINT NOT NULL,
    key          TEXT NOT NULL,
    PRIMARY KEY (execution_id, key)
);
CREATE INDEX payload_owner_key ON noetl.payload_owner (key);

-- Executions that no longer own payloads. Their rows cannot be derived again, so a rebuild leaves them unchanged.
CREATE TABLE noetl.pruned (
    execution_id BIGINT PRIMARY KEY,
    pruned_at    TIMESTAMPTZ NOT NULL DEFAULT now()
);

-- The execution of a run; NULL until something of the run has been read.
ALTER TABLE noetl.cursor ADD COLUMN execution_id BIGINT;
CREATE INDEX cursor_execution ON noetl.cursor (execution_id);
