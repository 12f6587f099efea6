-- Only registered versions have a registered_at; the others were only run (catalog_store.py). digest is the SHA-256 of content.
ALTER TABLE noetl.catalog ADD COLUMN digest TEXT, ADD COLUMN registered_at TIMESTAMPTZ;
CREATE UNIQUE INDEX catalog_registered ON noetl.catalog (path, digest) WHERE registered_at IS NOT NULL;

-- The schedule that started the run.
ALTER TABLE noetl.execution ADD COLUMN schedule TEXT;
