-- Queries for the owners of payloads and for noetl prune (owners.py, prune.py, server_needs.py).

-- name: add_owner
-- Adds an execution as the owner of payloads. The lock waits for a prune that deletes one of them; a missing payload gets
-- no owner.
INSERT INTO noetl.payload_owner (execution_id, key)
SELECT $1, p.key FROM noetl.payload p
WHERE p.key = ANY($2::text[])
  AND NOT EXISTS (SELECT FROM noetl.payload_owner o WHERE (o.execution_id, o.key) = ($1, p.key))
ORDER BY p.key
FOR KEY SHARE OF p
ON CONFLICT DO NOTHING

-- name: namespaces
SELECT DISTINCT namespace FROM noetl.cursor

-- name: ended_executions
-- Executions that own payloads and whose runs, loops included, have been read to their end and all ended before $1. A run
-- that the server removed before it was read (problem) counts as ended when that was noticed. A loop of which nothing has
-- been read is known from its parent's history, or by its id, which begins with that of its playbook.
WITH unread AS (
    SELECT namespace, string_to_array(workflow_id, '/') AS parts, parent_run_id FROM noetl.cursor WHERE NOT is_closed
), unfinished AS (
    SELECT c.execution_id FROM unread u JOIN noetl.cursor c ON (c.namespace, c.run_id) = (u.namespace, u.parent_run_id)
    UNION ALL
    SELECT c.execution_id FROM unread u
    CROSS JOIN generate_series(1, cardinality(u.parts)) AS length
    JOIN noetl.cursor c ON (c.namespace, c.workflow_id) = (u.namespace, array_to_string(u.parts[:length], '/'))
), recent AS (
    SELECT c.execution_id FROM noetl.cursor c
    CROSS JOIN LATERAL (
        SELECT event_time FROM noetl.history h
        WHERE (h.namespace, h.workflow_id, h.run_id) = (c.namespace, c.workflow_id, c.run_id)
        ORDER BY event_id DESC LIMIT 1
    ) last
    WHERE EXISTS (SELECT FROM noetl.payload_owner o WHERE o.execution_id = c.execution_id)
      AND greatest(last.event_time, CASE WHEN c.problem IS NOT NULL THEN c.updated_at END) >= $1
)
SELECT DISTINCT execution_id FROM noetl.payload_owner o
WHERE NOT EXISTS (SELECT FROM unfinished WHERE unfinished.execution_id = o.execution_id)
  AND NOT EXISTS (SELECT FROM recent WHERE recent.execution_id = o.execution_id)

-- name: executions_of_workflows
SELECT DISTINCT execution_id FROM noetl.cursor
WHERE namespace = $1 AND workflow_id = ANY($2::text[]) AND execution_id IS NOT NULL

-- name: runs_progress
-- The number of events of each run that have been read, whether all have, and the time of the first. No row for a run
-- without a cursor.
SELECT c.run_id, c.position, c.is_closed AND c.problem IS NULL AS is_read, h.event_time AS start_time FROM noetl.cursor c
JOIN unnest($2::text[], $3::text[]) AS run (workflow_id, run_id) USING (workflow_id, run_id)
LEFT JOIN noetl.history h ON (h.namespace, h.workflow_id, h.run_id, h.event_id) = (c.namespace, c.workflow_id, c.run_id, 1)
WHERE c.namespace = $1

-- name: lock_out_rebuild
-- Waits until no rebuild runs (lock_all_cursors), and makes the next one wait.
LOCK TABLE noetl.cursor IN ROW EXCLUSIVE MODE

-- name: release
-- Removes the executions from the owners, and freezes their rows.
WITH frozen AS (INSERT INTO noetl.pruned (execution_id) SELECT unnest($1::bigint[]) ON CONFLICT DO NOTHING)
DELETE FROM noetl.payload_owner WHERE execution_id = ANY($1::bigint[])

-- name: prunable_payloads
-- Payloads with keys after $4 that are not in $2, were last stored before $1, and have no owner except the executions $3.
-- The condition on the owner's key saves the planner from reading all owners before $4.
SELECT p.key, octet_length(p.data) AS bytes FROM noetl.payload p
WHERE p.key > $4 AND p.used_at < $1 AND NOT p.key = ANY($2::text[])
  AND NOT EXISTS (
      SELECT FROM noetl.payload_owner o WHERE o.key = p.key AND o.key > $4 AND NOT o.execution_id = ANY($3::bigint[])
  )
ORDER BY p.key

-- name: delete_payloads
DELETE FROM noetl.payload WHERE key = ANY($1::text[])

-- name: pruned_at
SELECT pruned_at FROM noetl.pruned WHERE execution_id = $1

-- name: count_log
SELECT count(*) FROM noetl.log WHERE stored_at < $1

-- name: delete_log
WITH deleted AS (DELETE FROM noetl.log WHERE stored_at < $1 RETURNING 1) SELECT count(*) FROM deleted
