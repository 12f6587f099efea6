-- What `noetl prune` needs to know of payloads: who owns them, when they were last stored, what it has released.

-- used_at moves when a payload that is there is stored again (payload_store.py).
ALTER TABLE noetl.payload ADD COLUMN used_at TIMESTAMPTZ NOT NULL DEFAULT now();

-- The history of the execution names the payload. Filled in the transaction that stores that history.
CREATE TABLE noetl.payload_owner (
    execution_id BIGINT NOT NULL,
    key          TEXT NOT NULL,
    PRIMARY KEY (execution_id, key)
);
CREATE INDEX payload_owner_key ON noetl.payload_owner (key);

-- Executions that own no payload any more. Their rows cannot be derived again, so a rebuild leaves them as they are.
CREATE TABLE noetl.pruned (
    execution_id BIGINT PRIMARY KEY,
    pruned_at    TIMESTAMPTZ NOT NULL DEFAULT now()
);

-- The execution of a run of which something has been read.
ALTER TABLE noetl.cursor ADD COLUMN execution_id BIGINT;
CREATE INDEX cursor_execution ON noetl.cursor (execution_id);
