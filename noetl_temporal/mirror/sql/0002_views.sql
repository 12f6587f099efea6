-- The same log in older vocabularies. noetl.event itself has the canonical names.

CREATE VIEW noetl.event_log AS SELECT * FROM noetl.event;

-- The only registry of names: those of an event in the loop-and-retry design (December 2025) and in the whitepaper, NULL
-- where it has none. One row may be several events of the whitepaper, in this order.
CREATE TABLE noetl.event_name (
    event_type TEXT PRIMARY KEY,
    legacy     TEXT,
    domain     TEXT[]
);
INSERT INTO noetl.event_name (event_type, legacy, domain) VALUES
    ('playbook.execution.requested', NULL,                       '{PlaybookExecutionRequested}'),
    ('playbook.request.evaluated',   NULL,                       '{PlaybookRequestEvaluated}'),
    ('playbook.started',             'playbook_started',         NULL),
    ('playbook.paused',              NULL,                       '{PlaybookPaused}'),
    ('playbook.resumed',             NULL,                       NULL),
    ('playbook.completed',           'playbook_completed',       '{PlaybookProcessed}'),
    ('playbook.failed',              'playbook_failed',          '{PlaybookProcessed}'),
    ('playbook.cancelled',           'playbook_cancelled',       '{PlaybookProcessed}'),
    ('playbook.called',              NULL,                       NULL),
    ('playbook.returned',            NULL,                       NULL),
    ('workflow.started',             'workflow_initialized',     '{WorkflowStarted}'),
    ('workflow.finished',            'workflow_',                '{WorkflowFinished}'), -- with its status
    ('policy.admit.evaluated',       NULL,                       NULL),
    ('step.scheduled',               NULL,                       NULL),
    ('step.started',                 'step_started',             '{StepStarted}'),
    ('step.done',                    'step_completed',           NULL),
    ('step.failed',                  'step_failed',              NULL),
    ('step.skipped',                 'step_skipped',             NULL),
    ('step.cancelled',               'step_cancelled',           NULL),
    ('step.held',                    NULL,                       NULL),
    ('step.released',                NULL,                       NULL),
    ('step.reused',                  NULL,                       NULL),
    -- the older designs have attempts instead of tasks; a task that is cancelled before its first attempt has none
    ('task.started',                 NULL,                       NULL),
    ('task.attempt.started',         'action_started',           '{RetryStarted,ToolStarted}'), -- Retry: of later attempts
    ('task.attempt.done',            'action_completed',         '{ToolFinished,RetryProcessed}'),
    ('task.attempt.failed',          'action_failed',            '{ToolFinished,RetryProcessed}'),
    ('policy.task.evaluated',        'retry_scheduled',          NULL), -- where it repeats the call
    ('task.done',                    'retry_sequence_completed', NULL), -- where it has pages
    ('task.failed',                  NULL,                       NULL),
    ('task.cancelled',               NULL,                       NULL),
    ('sink.started',                 NULL,                       '{SinkStarted}'),
    ('sink.done',                    NULL,                       '{SinkProcessed}'),
    ('sink.failed',                  NULL,                       '{SinkProcessed}'),
    ('result.stored',                NULL,                       NULL),
    ('loop.started',                 'iterator_started',         '{LoopStarted}'),
    ('loop.done',                    'iterator_completed',       '{LoopFinished}'),
    ('loop.failed',                  'iterator_failed',          '{LoopFinished}'), -- completed: where all items ended
    ('loop.cancelled',               'iterator_failed',          '{LoopFinished}'),
    ('loop.resumed',                 NULL,                       NULL),
    ('loop.iteration.scheduled',     NULL,                       NULL),
    ('loop.iteration.started',       'iteration_started',        '{LoopIterationStarted}'),
    ('loop.iteration.done',          'iteration_completed',      '{LoopIterationFinished}'),
    ('loop.iteration.failed',        'iteration_completed',      '{LoopIterationFinished}'),
    ('loop.iteration.cancelled',     'iteration_completed',      '{LoopIterationFinished}'),
    ('next.evaluated',               NULL,                       '{CaseStarted,CaseEvaluated,NextEvaluated}'), -- Case: of arcs
    ('ctx.updated',                  NULL,                       NULL),
    ('warning',                      'warning',                  NULL),
    ('incident.opened',              'error',                    NULL),
    ('incident.resolved',            'info',                     NULL);

-- The rows that have the context of the playbook: views add it to later rows, which have only their own.
CREATE INDEX event_context ON noetl.event (execution_id, event_id DESC) WHERE context ? '_step_results';

-- Names, data and meta of the loop-and-retry design (December 2025). An action is one attempt of a tool. The parent of a
-- later attempt is the first one, that of a page the page before, that of the end of a sequence its last page. Rows have
-- the context of the playbook from the last row that has it.
CREATE VIEW noetl.event_legacy AS
WITH named_event AS (
    SELECT e.*,
           CASE
               WHEN e.event_type = 'workflow.finished' THEN r.legacy || lower(e.status)
               WHEN e.event_type = 'policy.task.evaluated' AND NOT e.meta ? 'retry' THEN NULL
               WHEN e.event_type = 'task.done' AND NOT e.meta ? 'sequence' THEN NULL
               WHEN e.event_type = 'loop.failed' AND (e.meta #>> '{stats,failed}')::int > 0
                   AND (e.meta #>> '{stats,skipped}')::int = 0 THEN 'iterator_completed'
               ELSE r.legacy
           END AS legacy_type,
           e.event_type LIKE 'loop.iteration.%' AS is_iteration,
           coalesce(e.result->'context', nullif(e.result - 'status', '{}')) AS output
    FROM noetl.event e
    LEFT JOIN noetl.event_name r USING (event_type)
)
SELECT n.execution_id,
       n.catalog_id,
       n.event_id,
       CASE
           WHEN n.meta #> '{retry,parent_event_id}' IS NOT NULL THEN (n.meta #>> '{retry,parent_event_id}')::bigint
           WHEN n.legacy_type = 'retry_sequence_completed' THEN (
               SELECT max(a.event_id) FROM noetl.event a
               WHERE a.execution_id = n.execution_id AND a.parent_event_id = (n.meta->>'ends')::bigint
                   AND a.event_type = 'task.attempt.done')
           WHEN n.meta ? 'original_failed_step' THEN (
               SELECT max(f.event_id) FROM noetl.event f
               WHERE f.execution_id = n.execution_id AND f.event_type = 'step.failed' AND f.event_id < n.event_id
                   AND f.node_name = n.meta->>'original_failed_step')
           WHEN parent.event_type IN ('task.started', 'playbook.execution.requested') THEN parent.parent_event_id
           ELSE n.parent_event_id
       END AS parent_event_id,
       CASE WHEN n.is_iteration THEN n.execution_id ELSE n.parent_execution_id END AS parent_execution_id,
       n.created_at,
       n.legacy_type::varchar AS event_type,
       n.node_id,
       n.node_name,
       n.node_type,
       CASE n.legacy_type WHEN 'retry_scheduled' THEN 'PENDING' WHEN 'iterator_started' THEN 'RUNNING' ELSE n.status
           END::varchar AS status,
       n.duration,
       jsonb_build_object('catalog_id', n.catalog_id::text) || coalesce(playbook.context, '{}') || coalesce(n.context, '{}')
           || CASE WHEN n.legacy_type = 'iterator_started' THEN iterator.meta ELSE '{}' END AS context,
       n.result,
       (SELECT coalesce(jsonb_object_agg(key, value), '{}') FROM jsonb_each(CASE
           WHEN n.legacy_type LIKE 'action\_%' THEN jsonb_build_object(
               'step', n.meta->'step', 'tool', n.node_type, 'page', n.meta->'page',
               'attempt_number', coalesce(n.meta #> '{retry,call_number}', n.meta #> '{retry,attempt_number}'),
               'retry_config', n.context->'retry_config',
               'result', CASE WHEN n.output ?& '{status_code,data}' THEN n.output->'data' ELSE n.output END,
               'error', n.error)
           WHEN n.legacy_type = 'retry_scheduled' THEN
               jsonb_build_object('step', n.meta->'step', 'rule', n.meta->'rule') || coalesce(n.meta->'retry', '{}')
           WHEN n.legacy_type = 'retry_sequence_completed' THEN jsonb_build_object(
               'step', n.meta->'step', 'total_attempts', n.meta #> '{sequence,pages}',
               'strategy', n.meta #> '{sequence,strategy}', 'exhausted', n.meta #> '{sequence,exhausted}',
               'aggregated_result', CASE WHEN n.meta #>> '{sequence,strategy}' IN ('append', 'collect')
                   THEN coalesce(n.output->'value', n.output) ELSE n.output END)
           WHEN n.legacy_type = 'iterator_started' THEN iterator.meta || jsonb_build_object(
               'collection', n.context->'collection', 'nested_task', n.context->'nested_task')
           WHEN n.legacy_type LIKE 'iterator\_%' THEN jsonb_build_object(
               'total_iterations', n.meta #> '{stats,total}', 'successful', n.meta #> '{stats,success}',
               'failed', n.meta #> '{stats,failed}', 'error', n.error,
               'results', coalesce(n.output->'results', n.output->'value', n.output))
           WHEN n.is_iteration THEN jsonb_build_object(
               'iteration_index', n.meta->'iteration', 'element', n.context->'element', 'result', n.output,
               'error', n.error,
               'status', CASE n.status WHEN 'COMPLETED' THEN 'success' WHEN 'FAILED' THEN 'failed'
                   WHEN 'CANCELLED' THEN 'cancelled' END)
           ELSE jsonb_build_object(
               'step', CASE WHEN n.node_type = 'step' THEN n.node_name END,
               'incident', n.meta->'incident', 'result', n.output, 'error', n.error)
       END) WHERE value <> 'null') AS data,
       CASE
           WHEN n.is_iteration THEN n.meta || jsonb_build_object('iterator', jsonb_strip_nulls(jsonb_build_object(
               'iteration_index', n.meta->'iteration', 'parent_execution_id', n.execution_id,
               'total_iterations', iterator.meta->'total_count', 'iterator_name', iterator.meta->'iterator_name',
               'mode', iterator.meta->'mode')))
           WHEN n.legacy_type = 'iterator_started' THEN n.meta || jsonb_build_object('iterator', iterator.meta)
           WHEN n.meta ? 'stats' THEN n.meta || jsonb_build_object(
               'total_iterations', n.meta #> '{stats,total}', 'completed_iterations', n.meta #> '{stats,success}',
               'success_rate', round((n.meta #>> '{stats,success}')::numeric / nullif((n.meta #>> '{stats,total}')::numeric, 0), 4),
               'completed_at', n.meta #> '{execution,completed_at}')
           WHEN n.meta #> '{retry,call_number}' IS NOT NULL THEN
               jsonb_set(n.meta, '{retry,attempt_number}', n.meta #> '{retry,call_number}')
           ELSE n.meta
       END AS meta,
       n.error,
       n.worker_id,
       n.event_time
FROM named_event n
LEFT JOIN noetl.event parent ON parent.execution_id = n.execution_id AND parent.event_id = n.parent_event_id
LEFT JOIN noetl.event loop ON loop.execution_id = n.execution_id AND n.is_iteration
    AND loop.event_id = CASE n.event_type WHEN 'loop.iteration.started' THEN n.parent_event_id ELSE parent.parent_event_id END
CROSS JOIN LATERAL (
    SELECT meta || CASE WHEN meta->>'mode' = 'parallel' THEN '{"mode": "async"}'::jsonb ELSE '{}' END AS meta
    FROM coalesce(n.meta->'iterator', loop.meta->'iterator', '{}') AS meta
) iterator
LEFT JOIN LATERAL (
    SELECT s.context FROM noetl.event s
    WHERE s.execution_id = n.execution_id AND s.event_id < n.event_id AND s.context ? '_step_results'
        AND NOT n.context ? '_step_results'
    ORDER BY s.event_id DESC LIMIT 1
) playbook ON true
WHERE n.legacy_type IS NOT NULL;

-- Names and envelope of the whitepaper.
CREATE VIEW noetl.event_domain AS
SELECT e.execution_id,
       e.event_id,
       d.ordinal,
       d.event_type,
       e.event_time AS "timestamp",
       e.catalog_id AS playbook_id,
       c.path,
       c.version,
       e.execution_id::text AS workflow_run_id,
       coalesce(e.meta->>'step_run_id', regexp_replace(e.meta->>'loop_id', '/([0-9]+)$', '#\1')) AS step_run_id,
       coalesce(e.meta->>'loop_id' || '/', '') || (e.meta->>'task_run_id') AS tool_run_id,
       e.meta->>'loop_id' AS loop_id,
       e.meta->>'iteration_id' AS iteration_id,
       CASE WHEN d.event_type LIKE 'Retry%' THEN e.parent_event_id END AS retry_id,
       (e.meta #>> '{retry,attempt_number}')::integer AS attempt,
       CASE
           WHEN e.meta #> '{retry,parent_event_id}' IS NOT NULL THEN (e.meta #>> '{retry,parent_event_id}')::bigint
           WHEN d.event_type LIKE 'Sink%' THEN (
               SELECT max(a.event_id) FROM noetl.event a
               WHERE a.execution_id = e.execution_id AND a.parent_event_id = e.parent_event_id AND a.event_id < e.event_id
                   AND a.event_type = 'task.attempt.started')
           WHEN parent.event_type IN ('task.started', 'playbook.started') THEN parent.parent_event_id
           ELSE e.parent_event_id
       END AS parent_event_id,
       CASE e.status WHEN 'COMPLETED' THEN 'success' WHEN 'PARTIAL' THEN 'success' WHEN 'SKIPPED' THEN 'success' WHEN 'FAILED' THEN 'error'
            WHEN 'TIMED_OUT' THEN 'error' WHEN 'CANCELLED' THEN 'cancelled' WHEN 'TERMINATED' THEN 'cancelled' WHEN 'PAUSED' THEN 'paused' ELSE 'in_progress' END AS status,
       e.duration AS duration_sec,
       e.node_name,
       e.node_type,
       e.context AS input,
       CASE WHEN e.meta ? 'sink' THEN jsonb_strip_nulls(jsonb_build_object(
                'row_count', coalesce(e.meta #> '{sink,rows}', '0'), 'table', e.meta #> '{sink,table}'))
            ELSE coalesce(e.result->'context', nullif(e.result - 'status', '{}'))
       END AS output,
       CASE WHEN e.error IS NOT NULL THEN coalesce(e.meta->'error', '{}') || jsonb_build_object('message', e.error) END AS error,
       e.meta || CASE WHEN e.context ? 'element' THEN jsonb_build_object('iterator_value', e.context->'element')
                      ELSE '{}' END AS metadata
FROM noetl.event e
JOIN noetl.catalog c USING (catalog_id)
JOIN noetl.event_name r ON r.event_type = e.event_type
LEFT JOIN noetl.event parent ON parent.execution_id = e.execution_id AND parent.event_id = e.parent_event_id
CROSS JOIN LATERAL unnest(r.domain) WITH ORDINALITY AS d (event_type, ordinal)
WHERE (d.event_type NOT LIKE 'Retry%' OR (e.meta #>> '{retry,attempt_number}')::integer > 1)
  AND (d.event_type NOT LIKE 'Case%' OR jsonb_array_length(coalesce(e.meta->'arcs', '[]')) > 0);
