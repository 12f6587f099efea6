-- The versions of a path that people have registered, among those that were only run (catalog_store.py). digest is the sha256 of
-- content.
ALTER TABLE noetl.catalog ADD COLUMN digest TEXT, ADD COLUMN registered_at TIMESTAMPTZ;
CREATE UNIQUE INDEX catalog_registered ON noetl.catalog (path, digest) WHERE registered_at IS NOT NULL;

-- The schedule that has started a run.
ALTER TABLE noetl.execution ADD COLUMN schedule TEXT;
