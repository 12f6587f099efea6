-- Queries of the catalog (catalog_store.py).

-- name: lock_path
SELECT pg_advisory_xact_lock(hashtextextended('noetl.catalog/' || $1, 0))

-- name: find_catalog
-- A text has two rows if it was run before it was registered, and a newer text was registered in between.
SELECT catalog_id FROM noetl.catalog WHERE path = $1 AND content = $2 ORDER BY registered_at IS NULL, version LIMIT 1

-- name: add_catalog
INSERT INTO noetl.catalog (path, version, kind, content, meta)
SELECT $1, coalesce(max(version), 0) + 1, 'playbook', $2, $3::text::jsonb FROM noetl.catalog WHERE path = $1
RETURNING catalog_id

-- name: registered_text
SELECT path, version, digest, content, meta, registered_at FROM noetl.catalog
WHERE path = $1 AND digest = $2 AND content = $3

-- name: register_row
-- Registers the row of a text that was run before, unless a newer version was registered in between.
UPDATE noetl.catalog SET digest = $2, registered_at = now(), meta = $4::text::jsonb
WHERE catalog_id = (SELECT catalog_id FROM noetl.catalog WHERE path = $1 AND content = $3 ORDER BY version LIMIT 1)
  AND version > ALL (SELECT version FROM noetl.catalog WHERE path = $1 AND registered_at IS NOT NULL)
RETURNING path, version, digest, content, meta, registered_at

-- name: register_text
INSERT INTO noetl.catalog (path, version, kind, digest, content, meta, registered_at)
SELECT $1, coalesce(max(version), 0) + 1, 'playbook', $2, $3, $4::text::jsonb, now() FROM noetl.catalog WHERE path = $1
RETURNING path, version, digest, content, meta, registered_at

-- name: registered
-- For each path in $1, its version in $2, or the newest if that is NULL.
SELECT DISTINCT ON (r.path, r.version) c.path, c.version, c.digest, c.content, c.meta, c.registered_at
FROM unnest($1::text[], $2::int[]) AS r (path, version)
JOIN noetl.catalog c ON c.path = r.path AND (r.version IS NULL OR c.version = r.version)
WHERE c.registered_at IS NOT NULL
ORDER BY r.path, r.version, c.version DESC

-- name: registered_newest
-- The newest version of each path, or of each path that begins with $1.
SELECT DISTINCT ON (path) path, version, digest, content, meta, registered_at FROM noetl.catalog
WHERE registered_at IS NOT NULL AND ($1::text IS NULL OR starts_with(path, $1))
ORDER BY path, version DESC

-- name: registered_versions
SELECT path, version, digest, content, meta, registered_at FROM noetl.catalog
WHERE path = $1 AND registered_at IS NOT NULL ORDER BY version DESC

-- name: registered_paths
SELECT DISTINCT path FROM noetl.catalog WHERE registered_at IS NOT NULL ORDER BY path
