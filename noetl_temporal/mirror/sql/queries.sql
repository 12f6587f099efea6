-- Statements of the mirror, and queries of the log. Those that add rows to noetl.event are in event_rows.sql.

-- name: add_runs
-- Adds cursors for runs, and returns the runs that had none.
INSERT INTO noetl.cursor (namespace, workflow_id, run_id, workflow_type)
SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[])
ON CONFLICT DO NOTHING
RETURNING namespace, workflow_id, run_id, workflow_type

-- name: open_runs
SELECT namespace, workflow_id, run_id, workflow_type FROM noetl.cursor WHERE namespace = $1 AND NOT is_closed

-- name: all_runs
-- The runs whose rows can be derived, in the order in which they started. So a run comes after the one that started it,
-- which adds the execution, and a run that a reset created comes after its base, whose first events it has.
SELECT c.namespace, c.workflow_id, c.run_id, c.workflow_type
FROM noetl.cursor c
JOIN noetl.history h ON (h.namespace, h.workflow_id, h.run_id, h.event_id)
    = (c.namespace, c.workflow_id, c.run_id, coalesce(c.base_event_id, 1))
WHERE NOT EXISTS (SELECT FROM noetl.pruned p WHERE p.execution_id = c.execution_id)
ORDER BY h.event_time, c.workflow_id, c.run_id

-- name: lock_cursor
SELECT position, is_closed, state FROM noetl.cursor
WHERE (namespace, workflow_id, run_id) = ($1, $2, $3)
FOR UPDATE

-- name: move_cursor
UPDATE noetl.cursor
SET position = $4, is_closed = $5, state = $6::text::jsonb, execution_id = $7, problem = NULL, updated_at = now()
WHERE (namespace, workflow_id, run_id) = ($1, $2, $3)

-- name: note_origin
UPDATE noetl.cursor SET first_run_id = $4, continued_run_id = $5, parent_run_id = $6, parent_event_id = $7
WHERE (namespace, workflow_id, run_id) = ($1, $2, $3)

-- name: note_reset
UPDATE noetl.cursor SET base_run_id = $4, base_event_id = $5 WHERE (namespace, workflow_id, run_id) = ($1, $2, $3)

-- name: note_parent
-- Sets the run $1 as the parent of chunks that its history mentions, before their own histories are read.
UPDATE noetl.cursor c SET parent_run_id = $1
FROM unnest($2::text[], $3::text[], $4::text[]) AS chunk (namespace, workflow_id, run_id)
WHERE (c.namespace, c.workflow_id, c.run_id) = (chunk.namespace, chunk.workflow_id, chunk.run_id) AND c.parent_run_id IS NULL

-- name: rewind
-- Marks a run to be read from its start. Its stored events and rows stay.
INSERT INTO noetl.cursor (namespace, workflow_id, run_id, workflow_type) VALUES ($1, $2, $3, $4)
ON CONFLICT (namespace, workflow_id, run_id) DO UPDATE SET position = 0, is_closed = false, state = NULL, problem = NULL

-- name: give_up
-- Closes the cursor of a run that the server has removed: the part of its history that was not read stays missing.
INSERT INTO noetl.cursor (namespace, workflow_id, run_id, workflow_type, is_closed, problem) VALUES ($1, $2, $3, $4, true, $5)
ON CONFLICT (namespace, workflow_id, run_id) DO UPDATE SET is_closed = true, problem = $5, updated_at = now()
WHERE NOT cursor.is_closed

-- name: note_problem
INSERT INTO noetl.cursor (namespace, workflow_id, run_id, workflow_type, problem) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (namespace, workflow_id, run_id) DO UPDATE SET problem = $5, updated_at = now()

-- name: problems
SELECT namespace, workflow_id, run_id, problem, updated_at AS since FROM noetl.cursor
WHERE problem IS NOT NULL ORDER BY updated_at, workflow_id, run_id

-- name: open_runs_by_path
-- The busiest paths first, as only a limited number of paths get a label of their own (path_labels.py).
SELECT c.path, lower(x.status) AS status, count(*) AS count
FROM noetl.execution x JOIN noetl.catalog c USING (catalog_id)
WHERE x.end_time IS NULL AND x.execution_id IN (SELECT execution_id FROM noetl.cursor WHERE namespace = $1 AND NOT is_closed)
GROUP BY c.path, x.status ORDER BY count DESC, c.path

-- name: held_steps_by_path
-- Only paused runs have held steps.
SELECT path, sum(held)::bigint AS count FROM (
    SELECT c.path, (
        SELECT count(*) FILTER (WHERE event_type = 'step.held') - count(*) FILTER (WHERE event_type = 'step.released')
        FROM noetl.event e
        WHERE e.execution_id = x.execution_id AND event_type IN ('step.held', 'step.released') AND NOT EXISTS (
            SELECT FROM noetl.superseded_streams(x.execution_id) s
            WHERE s.stream_id = e.stream_id AND e.stream_version >= s.superseded_from
        )
    ) AS held
    FROM noetl.execution x JOIN noetl.catalog c USING (catalog_id)
    WHERE x.status = 'PAUSED' AND x.end_time IS NULL
      AND x.execution_id IN (SELECT execution_id FROM noetl.cursor WHERE namespace = $1 AND NOT is_closed)
) AS paused
WHERE held > 0 GROUP BY path ORDER BY count DESC, path

-- name: open_incidents_by_path
SELECT c.path, count(DISTINCT k.execution_id) AS count
FROM noetl.cursor k JOIN noetl.execution x USING (execution_id) JOIN noetl.catalog c USING (catalog_id)
WHERE k.namespace = $1 AND NOT k.is_closed AND k.state->>'incident_id' IS NOT NULL
GROUP BY c.path ORDER BY count DESC, c.path

-- name: unread_histories
SELECT count(*) AS count FROM noetl.cursor WHERE namespace = $1 AND problem IS NOT NULL

-- name: state_of
SELECT is_closed, state FROM noetl.cursor WHERE (namespace, workflow_id, run_id) = ($1, $2, $3)

-- name: save_state
UPDATE noetl.cursor SET state = $4::text::jsonb WHERE (namespace, workflow_id, run_id) = ($1, $2, $3)

-- name: add_history
INSERT INTO noetl.history (namespace, workflow_id, run_id, event_id, event_type, event_time, proto)
SELECT $1, $2, $3, * FROM unnest($4::bigint[], $5::text[], $6::timestamptz[], $7::bytea[])
ON CONFLICT DO NOTHING

-- name: history_events
SELECT event_id, proto FROM noetl.history
WHERE (namespace, workflow_id, run_id) = ($1, $2, $3) AND event_id = ANY($4::bigint[])

-- name: stored_types
SELECT event_id, event_type FROM noetl.history
WHERE (namespace, workflow_id, run_id) = ($1, $2, $3) AND event_id = ANY($4::bigint[])

-- name: history_after
SELECT proto FROM noetl.history
WHERE (namespace, workflow_id, run_id) = ($1, $2, $3) AND event_id > $4
ORDER BY event_id LIMIT $5

-- name: lock_attempts
-- Locks the attempts of a namespace: two mirrors would lock its rows in different orders.
SELECT pg_advisory_xact_lock(hashtext('noetl.running_attempt'), hashtext($1))

-- name: delete_attempts
-- Deletes the attempts of a namespace, and returns the executions that had a paused one.
WITH deleted AS (DELETE FROM noetl.running_attempt WHERE namespace = $1 RETURNING execution_id, status)
SELECT DISTINCT execution_id FROM deleted WHERE status = 'PAUSED' ORDER BY execution_id

-- name: open_call_pauses
-- The pauses that have not ended, for the calls $4 of a run.
SELECT call_id, paused_at, paused_event_id FROM noetl.call_pause
WHERE (namespace, workflow_id, run_id) = ($1, $2, $3) AND call_id = ANY($4::text[]) AND resumed_at IS NULL
ORDER BY paused_event_id

-- name: free_call_pause_id
-- The first free id from $2 on, in the millisecond whose last id is $3.
SELECT coalesce(max(id) + 1, $2::bigint) FROM noetl.call_pause, LATERAL unnest(ARRAY[paused_event_id, resumed_event_id]) AS id
WHERE execution_id = $1 AND id BETWEEN $2::bigint AND $3::bigint

-- name: add_call_pause
-- Returns nothing if the pause is already stored.
INSERT INTO noetl.call_pause (namespace, workflow_id, run_id, call_id, paused_at, execution_id, paused_event_id, facts)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8::text::jsonb)
ON CONFLICT DO NOTHING
RETURNING *

-- name: end_call_pause
UPDATE noetl.call_pause SET resumed_at = $6, resumed_event_id = $7
WHERE (namespace, workflow_id, run_id, call_id, paused_at) = ($1, $2, $3, $4, $5) AND resumed_at IS NULL
RETURNING *

-- name: all_call_pauses
-- The pauses of the executions whose log is derived again.
SELECT p.*, c.workflow_type
FROM noetl.call_pause p JOIN noetl.cursor c USING (namespace, workflow_id, run_id)
JOIN noetl.execution x ON x.execution_id = p.execution_id
WHERE NOT EXISTS (SELECT FROM noetl.pruned f WHERE f.execution_id = p.execution_id)
ORDER BY p.paused_event_id

-- name: execution_of_run
SELECT c.execution_id, EXISTS (
    SELECT FROM noetl.call_pause p
    WHERE (p.namespace, p.workflow_id, p.run_id) = (c.namespace, c.workflow_id, c.run_id) AND p.resumed_at IS NULL
) AS has_open_pauses
FROM noetl.cursor c WHERE (c.namespace, c.workflow_id, c.run_id) = ($1, $2, $3) AND c.execution_id IS NOT NULL

-- name: replace_attempts
-- Replaces the attempts of a run.
WITH current AS (
    SELECT * FROM jsonb_to_recordset($4::text::jsonb) AS attempt (
        call_id TEXT, attempt INT, task_event_id BIGINT, step TEXT, task TEXT, tool TEXT, iteration INT, page INT,
        status TEXT, started_at TIMESTAMPTZ, ended_at TIMESTAMPTZ, due_at TIMESTAMPTZ, error TEXT, rule INT, delay FLOAT8,
        worker_id TEXT)
), deleted AS (
    DELETE FROM noetl.running_attempt r
    WHERE (namespace, workflow_id, run_id) = ($1, $2, $3)
      AND NOT EXISTS (SELECT FROM current c WHERE (c.call_id, c.attempt) = (r.call_id, r.attempt))
)
INSERT INTO noetl.running_attempt
SELECT $1, $2, $3, c.call_id, c.attempt, k.execution_id, c.task_event_id, c.step, c.task, c.tool, c.iteration, c.page, c.status,
       c.started_at, c.ended_at, c.due_at, c.error, c.rule, c.delay, c.worker_id
FROM current c JOIN noetl.cursor k ON (k.namespace, k.workflow_id, k.run_id) = ($1, $2, $3)
ON CONFLICT (namespace, workflow_id, run_id, call_id, attempt) DO UPDATE
SET status = EXCLUDED.status, started_at = EXCLUDED.started_at, ended_at = EXCLUDED.ended_at, due_at = EXCLUDED.due_at,
    error = EXCLUDED.error, rule = EXCLUDED.rule, delay = EXCLUDED.delay, worker_id = EXCLUDED.worker_id,
    seen_at = clock_timestamp()

-- name: add_execution
INSERT INTO noetl.execution (execution_id, catalog_id, parent_execution_id, status, start_time, created_at, schedule)
VALUES ($1, $2, $3, 'RUNNING', $4, $4, $5)
ON CONFLICT DO NOTHING

-- name: lock_execution
-- Locks an execution, so that its events are stored one transaction at a time and their positions are committed in order.
-- A crash of Postgres may undo the last transactions (store.py) after readers have seen their positions, and closes all
-- connections. So a connection that began after the last events were stored skips one position for each microsecond between
-- the two, which is more than the number of events that may have been lost.
SELECT catalog_id, parent_execution_id, events + greatest(0, (
    SELECT extract(epoch FROM backend_start AT TIME ZONE 'utc' - CASE WHEN events > 0 THEN updated_at ELSE start_time END) * 1000000
    FROM pg_stat_get_activity(pg_backend_pid())))::bigint AS last_position
FROM noetl.execution WHERE execution_id = $1 FOR UPDATE

-- name: update_execution
-- Updates an execution from its events; $2 is the position of the last one. The status is that of the last event that starts,
-- pauses, resumes or ends the execution, in whatever order its runs are read; PAUSED also with a held step, or with a call
-- that is paused in Temporal itself. state is derived, in upstream's names, from the last event that has the context of the
-- playbook, if $3 says that such an event was added.
WITH latest_context AS (
    SELECT context, context->'_step_results' AS steps FROM noetl.event
    WHERE execution_id = $1 AND context ? '_step_results' AND $3
    ORDER BY event_id DESC LIMIT 1
), last AS (
    SELECT event_id, event_type, node_name FROM noetl.event
    WHERE execution_id = $1 ORDER BY event_id DESC LIMIT 1
), status_event AS (
    SELECT event_type, status, created_at, error FROM noetl.event e
    WHERE execution_id = $1 AND event_type IN ('playbook.started', 'playbook.paused', 'playbook.resumed', 'playbook.completed', 'playbook.failed', 'playbook.cancelled')
      AND NOT EXISTS (
        SELECT FROM noetl.superseded_streams($1) s WHERE s.stream_id = e.stream_id AND e.stream_version >= s.superseded_from
    )
    ORDER BY event_id DESC LIMIT 1
), held AS (
    SELECT count(*) FILTER (WHERE event_type = 'step.held') > count(*) FILTER (WHERE event_type = 'step.released') AS is_held
    FROM noetl.event e
    WHERE execution_id = $1 AND event_type IN ('step.held', 'step.released') AND NOT EXISTS (
        SELECT FROM noetl.superseded_streams($1) s WHERE s.stream_id = e.stream_id AND e.stream_version >= s.superseded_from
    )
)
UPDATE noetl.execution x
SET last_event_id = last.event_id,
    last_event_type = last.event_type,
    last_node_name = last.node_name,
    status = CASE WHEN s.event_type IN ('playbook.completed', 'playbook.failed', 'playbook.cancelled') THEN s.status
                  WHEN s.event_type = 'playbook.paused' OR held.is_held THEN 'PAUSED'
                  WHEN EXISTS (SELECT FROM noetl.running_attempt r WHERE r.execution_id = $1 AND r.status = 'PAUSED') THEN 'PAUSED'
                  ELSE 'RUNNING' END,
    end_time = CASE WHEN s.event_type IN ('playbook.completed', 'playbook.failed', 'playbook.cancelled') THEN s.created_at END,
    error = s.error,
    events = $2,
    state = CASE WHEN c.context IS NULL THEN x.state ELSE jsonb_build_object(
        'workload', c.context->'workload', 'variables', c.context->'vars', 'step_results', c.steps,
        'completed_steps', (SELECT coalesce(jsonb_agg(step ORDER BY step), '[]') FROM jsonb_each(c.steps) AS r (step, summary)
                            WHERE summary->>'status' <> 'failed')) END,
    updated_at = now() AT TIME ZONE 'utc'
FROM last LEFT JOIN status_event s ON true LEFT JOIN latest_context c ON true CROSS JOIN held
WHERE x.execution_id = $1

-- name: lock_all_cursors
-- Makes all mirrors wait while the log is derived again.
LOCK TABLE noetl.cursor IN EXCLUSIVE MODE

-- name: delete_events
-- Keeps those of pruned executions. Not TRUNCATE: readers see the old rows until the new ones are committed.
WITH events AS (
    DELETE FROM noetl.event e WHERE NOT EXISTS (SELECT FROM noetl.pruned p WHERE p.execution_id = e.execution_id)
)
DELETE FROM noetl.execution x WHERE NOT EXISTS (SELECT FROM noetl.pruned p WHERE p.execution_id = x.execution_id)

-- name: count_pruned
-- How many executions a rebuild leaves unchanged.
SELECT count(*) FROM noetl.pruned JOIN noetl.execution USING (execution_id)

-- name: events
-- The events that no reset superseded.
SELECT e.* FROM noetl.event e
WHERE execution_id = $1 AND event_id > $2
  AND NOT EXISTS (
      SELECT FROM noetl.superseded_streams($1) s WHERE s.stream_id = e.stream_id AND e.stream_version >= s.superseded_from
  )
ORDER BY event_id LIMIT $3

-- name: events_of_types
SELECT e.* FROM noetl.event e
WHERE execution_id = $1 AND event_id > $2 AND event_type = ANY($4::text[])
  AND NOT EXISTS (
      SELECT FROM noetl.superseded_streams($1) s WHERE s.stream_id = e.stream_id AND e.stream_version >= s.superseded_from
  )
ORDER BY event_id LIMIT $3

-- name: events_by_time
-- The next events after a time and id, in the order in which they happened.
SELECT e.*, EXISTS (
    SELECT FROM noetl.superseded_streams($1) s WHERE s.stream_id = e.stream_id AND e.stream_version >= s.superseded_from
) AS superseded
FROM noetl.event e
WHERE execution_id = $1 AND (event_time, event_id) > ($2, $3)
ORDER BY event_time, event_id LIMIT $4

-- name: position_before_last
-- The time and id before the last $2 + 1 events.
SELECT event_time, event_id - 1 AS event_id FROM noetl.event WHERE execution_id = $1
ORDER BY event_time DESC, event_id DESC OFFSET $2 LIMIT 1

-- name: event_widths
-- The longest texts and the longest duration of the events after a time and id.
SELECT max(length(event_type)) AS event_type, max(length(node_name)) AS node_name, max(length(status)) AS status,
       max(duration) AS duration
FROM noetl.event WHERE execution_id = $1 AND (event_time, event_id) > ($2, $3)

-- name: event_counts
SELECT (SELECT count(*) FROM noetl.event WHERE execution_id = $1) AS events,
       (SELECT count(*) FROM noetl.superseded_events($1)) AS superseded

-- name: events_since
SELECT e.* FROM noetl.event e WHERE execution_id = $1 AND position > $2 ORDER BY event_id

-- name: execution
SELECT x.*, c.path, c.version FROM noetl.execution x JOIN noetl.catalog c USING (catalog_id) WHERE x.execution_id = $1

-- name: playbook_text
SELECT c.path, c.content FROM noetl.execution x JOIN noetl.catalog c USING (catalog_id) WHERE x.execution_id = $1

-- name: called_runs
-- The runs that an execution has called, in the order in which they started. Each row has the total number.
SELECT x.execution_id, c.path, x.status, count(*) OVER () AS total
FROM noetl.execution x JOIN noetl.catalog c USING (catalog_id)
WHERE x.parent_execution_id = $1
ORDER BY x.start_time, x.execution_id LIMIT $2

-- name: open_runs_below
WITH RECURSIVE below AS (
    SELECT x.* FROM noetl.execution x WHERE x.parent_execution_id = $1 AND x.end_time IS NULL
    UNION ALL
    SELECT x.* FROM noetl.execution x JOIN below ON x.parent_execution_id = below.execution_id WHERE x.end_time IS NULL
)
SELECT below.execution_id, c.path, below.status FROM below JOIN noetl.catalog c USING (catalog_id)
ORDER BY below.start_time, below.execution_id LIMIT $2

-- name: latest_execution
-- The latest execution that no other one has called.
SELECT x.*, c.path, c.version FROM noetl.execution x JOIN noetl.catalog c USING (catalog_id)
WHERE x.parent_execution_id IS NULL
ORDER BY x.start_time DESC NULLS LAST, x.execution_id DESC LIMIT 1

-- name: read_progress
-- How far the runs of a playbook's workflow have been read, and its loops that are not read to their end. A loop of which
-- nothing has been read is known from its parent's history.
WITH playbook_run AS (
    SELECT namespace, workflow_id, run_id, is_closed, problem, updated_at AS since, execution_id FROM noetl.cursor
    WHERE namespace = $1 AND workflow_id = $2
)
SELECT namespace, workflow_id, run_id, is_closed, problem, since FROM playbook_run
UNION ALL
SELECT namespace, workflow_id, run_id, is_closed, problem, updated_at FROM noetl.cursor
WHERE namespace = $1 AND NOT is_closed AND workflow_id <> $2 AND workflow_type = 'noetl.loop'
  AND (execution_id IN (SELECT execution_id FROM playbook_run) OR parent_run_id IN (SELECT run_id FROM playbook_run))

-- name: latest_run
-- The run of the playbook's workflow that started last, a reset included.
SELECT c.namespace, c.workflow_id, c.run_id FROM noetl.cursor c
JOIN noetl.history h ON (h.namespace, h.workflow_id, h.run_id, h.event_id)
    = (c.namespace, c.workflow_id, c.run_id, coalesce(c.base_event_id, 1))
WHERE c.execution_id = $1 AND c.workflow_type = 'noetl.playbook'
ORDER BY h.event_time DESC, c.run_id DESC LIMIT 1

-- name: steps
-- A summary of each step, without what resets superseded. Its status is PAUSED while a step run is held, else STARTED while
-- one runs, else that of the last; times and counts are of all step runs. A call without an ended attempt counts as one
-- attempt. Each item of a loop that was retried counts once, as its last run ended; the rows of a cursor, whose number is
-- unknown, count each time. All aggregates work without collecting rows, so that a million rows are counted without sorting.
WITH current_event AS NOT MATERIALIZED (
    SELECT coalesce(meta->>'step', node_name) AS step, event_id, parent_event_id, event_type, node_type, meta, created_at, duration
    FROM noetl.event e
    WHERE execution_id = $1 AND (node_type IN ('step', 'loop', 'iteration') OR meta ? 'step')
      AND NOT EXISTS (
          SELECT FROM noetl.superseded_streams($1) s WHERE s.stream_id = e.stream_id AND e.stream_version >= s.superseded_from
      )
), call AS (
    SELECT step, count(*) FILTER (WHERE event_type <> 'task.started') AS ended, bool_or(event_type = 'task.started') AS has_started
    FROM current_event WHERE event_type IN ('task.started', 'task.attempt.done', 'task.attempt.failed')
    GROUP BY step, meta->>'loop_id', meta->>'task_run_id'
), calls AS (
    SELECT step, sum(ended + has_started::int - (ended > 0)::int)::bigint AS attempts FROM call GROUP BY step
), retried_loop AS (
    SELECT l.meta->>'loop_id' FROM current_event l JOIN current_event r USING (parent_event_id)
    WHERE l.event_type = 'loop.started' AND l.meta->'iterator' ? 'collection_size'
      AND r.event_type = 'step.released' AND r.meta->>'action' = 'retry'
), summary AS (
    SELECT step,
           min(created_at) AS started_at,
           min(event_id) AS first_id,
           max(event_id) FILTER (WHERE node_type = 'step' AND event_type ~ '^step\.') AS last_id,
           max(event_id) FILTER (WHERE event_type IN ('step.done', 'step.failed', 'step.cancelled')) AS end_id,
           round(least(
               sum(duration) FILTER (WHERE event_type IN ('step.done', 'step.failed', 'step.cancelled')),
               extract(epoch FROM max(created_at) FILTER (WHERE event_type IN ('step.done', 'step.failed', 'step.cancelled'))
                                  - min(created_at) FILTER (WHERE event_type = 'step.started'))
           )::numeric, 3)::float8 AS duration_seconds,
           count(*) FILTER (WHERE event_type = 'step.started') AS runs,
           count(*) FILTER (WHERE event_type IN ('step.done', 'step.failed', 'step.cancelled')) AS ended_runs,
           count(*) FILTER (WHERE event_type = 'step.held') > count(*) FILTER (WHERE event_type = 'step.released') AS is_held,
           count(*) FILTER (WHERE event_type IN ('wait.started', 'approval.requested'))
               > count(*) FILTER (WHERE event_type IN ('wait.done', 'wait.timed_out', 'wait.cancelled', 'approval.decided')) AS is_waiting,
           bool_or(event_type = 'step.reused') AND NOT bool_or(event_type = 'step.started') AS reused,
           count(*) FILTER (WHERE event_type = 'task.attempt.failed' AND (meta #>> '{retry,will_retry}')::boolean) AS retries,
           count(*) FILTER (WHERE event_type = 'task.done' AND meta ? 'page') AS pages,
           sum(coalesce(meta #>> '{iterator,chunks}', meta #>> '{iterator,collection_size}')::int)
               FILTER (WHERE event_type = 'loop.started' AND meta->>'loop_id' NOT IN (TABLE retried_loop)) AS iterations_total,
           coalesce(sum((meta->>'reused_items')::int)
               FILTER (WHERE event_type = 'loop.started' AND meta->>'loop_id' NOT IN (TABLE retried_loop)), 0)
               + count(*) FILTER (WHERE event_type IN ('loop.iteration.done', 'loop.iteration.failed')
                                  AND meta->>'loop_id' NOT IN (TABLE retried_loop)) AS iterations_ended,
           count(*) FILTER (WHERE event_type = 'loop.iteration.failed'
                            AND meta->>'loop_id' NOT IN (TABLE retried_loop)) AS iterations_failed
    FROM current_event
    GROUP BY step
    HAVING count(*) FILTER (WHERE event_type ~ '^step\.') > 0 AND NOT bool_or(meta ? 'synthetic')
)
SELECT step,
       started_at,
       CASE WHEN is_held THEN 'PAUSED'
            WHEN runs > ended_runs THEN 'STARTED'
            ELSE (SELECT e.status FROM noetl.event e WHERE (e.execution_id, e.event_id) = ($1, last_id)) END AS status,
       duration_seconds,
       (SELECT e.error FROM noetl.event e WHERE (e.execution_id, e.event_id) = ($1, end_id)) AS error,
       runs, reused, is_waiting, coalesce(attempts, 0) AS attempts, retries, pages, iterations_total, iterations_ended, iterations_failed
FROM summary LEFT JOIN calls USING (step)
ORDER BY first_id

-- name: stored_histories
-- The number of stored events of each run, and whether it was read to its end; 0 and false for a run without a cursor.
SELECT r.namespace, r.workflow_id, r.run_id, r.workflow_type,
       coalesce(c.is_closed, false) AS is_closed, h.stored,
       coalesce(h.types[1] IN ('WORKFLOW_EXECUTION_COMPLETED', 'WORKFLOW_EXECUTION_FAILED', 'WORKFLOW_EXECUTION_CANCELED',
                               'WORKFLOW_EXECUTION_CONTINUED_AS_NEW', 'WORKFLOW_EXECUTION_TIMED_OUT',
                               'WORKFLOW_EXECUTION_TERMINATED'), false) AS has_end
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS r (namespace, workflow_id, run_id, workflow_type)
LEFT JOIN noetl.cursor c USING (namespace, workflow_id, run_id)
CROSS JOIN LATERAL (
    SELECT count(*) AS stored, array_agg(event_type ORDER BY event_id DESC) AS types FROM noetl.history e
    WHERE (e.namespace, e.workflow_id, e.run_id) = (r.namespace, r.workflow_id, r.run_id)
) h

-- name: add_log
INSERT INTO noetl.log (execution_id, step, task, iteration, page, attempt, worker_id, time, stream, text)
SELECT $1, $2, $3, $4, $5, $6, $7, * FROM unnest($8::timestamptz[], $9::text[], $10::text[])

-- name: log
-- The next rows after the position $2, without the positions in $3.
SELECT * FROM noetl.log
WHERE execution_id = $1 AND position > $2 AND NOT position = ANY($3::bigint[]) AND ($4::text IS NULL OR step = $4)
ORDER BY position LIMIT $5

-- name: executions_like
-- Executions with an id in one of the ranges from $2 to $3, or a workflow id that begins with $1.
SELECT x.execution_id, coalesce(c.workflow_id, '') AS workflow_id
FROM noetl.execution x
LEFT JOIN LATERAL (
    SELECT workflow_id FROM noetl.cursor c
    WHERE c.execution_id = x.execution_id AND c.workflow_type = 'noetl.playbook' LIMIT 1
) c ON true
WHERE EXISTS (SELECT FROM unnest($2::bigint[], $3::bigint[]) AS r (low, high) WHERE x.execution_id BETWEEN low AND high)
   OR starts_with(c.workflow_id, $1)
ORDER BY x.start_time DESC NULLS LAST, x.execution_id DESC LIMIT $4

-- name: executions
-- The latest first. $1 is a path, $2 the beginning of a path, $3 the statuses, $4 the earliest start, $6 the earliest end;
-- each is NULL for any.
SELECT x.execution_id, x.parent_execution_id, c.path, c.version, x.status, x.start_time, x.end_time, x.error, x.schedule,
       coalesce((SELECT workflow_id FROM noetl.cursor k
                 WHERE k.execution_id = x.execution_id AND k.workflow_type = 'noetl.playbook' LIMIT 1), '') AS workflow_id
FROM noetl.execution x JOIN noetl.catalog c USING (catalog_id)
WHERE ($1::text IS NULL OR c.path = $1) AND ($2::text IS NULL OR starts_with(c.path, $2))
  AND ($3::text[] IS NULL OR x.status = ANY($3)) AND ($4::timestamp IS NULL OR x.start_time >= $4)
  AND ($6::timestamp IS NULL OR x.end_time >= $6)
ORDER BY x.start_time DESC NULLS LAST, x.execution_id DESC LIMIT $5

-- name: claim_key
-- Returns the submission with a key; the first one adds it with its execution id. The update changes nothing: it waits for
-- a transaction that inserts the row at the same time, and returns that row. An execution in the log has been started.
INSERT INTO noetl.submission AS s (namespace, path, key, execution_id, playbook, payload) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (namespace, path, key) DO UPDATE SET key = s.key
RETURNING s.execution_id, s.playbook, s.payload,
          s.is_started OR EXISTS (SELECT FROM noetl.execution x WHERE x.execution_id = s.execution_id) AS is_started

-- name: record_start
UPDATE noetl.submission SET is_started = true WHERE (namespace, path, key) = ($1, $2, $3)
