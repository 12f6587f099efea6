-- Queries that add rows to noetl.event, and find the results that rows share (event_table.py, results.py).

-- name: add_events
-- Adds rows with the positions after $22, and returns their ids. The caller compares rows that existed (event_table.py).
INSERT INTO noetl.event (
    execution_id, catalog_id, parent_execution_id, stream_id, aggregate_id, aggregate_type, schema_name, producer, correlation_id,
    event_id, parent_event_id, created_at, event_time, event_type, node_id, node_name, node_type, status, duration,
    context, result, meta, error, worker_id, stack_trace, stream_version, idempotency_key, envelope_checksum, position)
SELECT $1::bigint, $2::bigint, $3::bigint, $4::text, $1::bigint::text, 'execution', 'noetl.event', 'noetl-temporal', $1::bigint::text,
    event_id, parent, at AT TIME ZONE 'utc', at, type, node, node, kind, status, duration,
    context::jsonb, result::jsonb, meta::jsonb, error, worker, trace, version, $4 || '/' || version || '/' || ordinal, checksum,
    $22::bigint + number
FROM unnest($5::bigint[], $6::bigint[], $7::timestamptz[], $8::text[], $9::text[], $10::text[], $11::text[], $12::float8[],
            $13::text[], $14::text[], $15::text[], $16::text[], $17::text[], $18::text[], $19::bigint[], $20::int[], $21::text[])
    WITH ORDINALITY
    AS row (event_id, parent, at, type, node, kind, status, duration, context, result, meta, error, worker, trace, version, ordinal,
            checksum, number)
ON CONFLICT (execution_id, event_id) DO NOTHING
RETURNING event_id

-- name: results
-- The results of the rows $2; for the row that starts a task, that of the task's last attempt. Rows of several histories
-- have the same id if one run was reset more than once: those in the history $3 come first.
WITH RECURSIVE lineage (stream_id, previous_run_id, base_event_id, until) AS (
    -- The history, and the earlier runs whose events it begins with: all of their events, or those before until.
    SELECT $3::text, coalesce(base_run_id, continued_run_id), base_event_id, NULL::bigint
    FROM noetl.cursor WHERE execution_id = $1 AND run_id = regexp_replace($3, '^.*/', '')
    UNION
    SELECT c.workflow_id || '/' || c.run_id, coalesce(c.base_run_id, c.continued_run_id), c.base_event_id,
           CASE WHEN lineage.base_event_id IS NOT NULL THEN least(lineage.until, lineage.base_event_id) END
    FROM lineage JOIN noetl.cursor c ON c.run_id = lineage.previous_run_id AND c.execution_id = $1
)
SELECT DISTINCT ON (row_id) row_id, result FROM (
    SELECT e.event_id AS row_id, e.event_id, e.stream_id, e.stream_version, e.result FROM noetl.event e
    WHERE e.execution_id = $1 AND e.event_id = ANY($2::bigint[])
    UNION ALL
    SELECT e.parent_event_id, e.event_id, e.stream_id, e.stream_version, e.result FROM noetl.event e
    WHERE e.execution_id = $1 AND e.parent_event_id = ANY($2::bigint[]) AND e.event_type = 'task.attempt.done'
) candidate
LEFT JOIN lineage ON lineage.stream_id = candidate.stream_id
    AND candidate.stream_version < coalesce(lineage.until, candidate.stream_version + 1)
WHERE result IS NOT NULL
ORDER BY row_id, lineage.stream_id IS NOT NULL DESC, candidate.stream_id = $3 DESC, event_id DESC

-- name: checksums
SELECT event_id, event_type, node_name, stream_id, stream_version, envelope_checksum FROM noetl.event
WHERE execution_id = $1 AND event_id = ANY($2::bigint[])
