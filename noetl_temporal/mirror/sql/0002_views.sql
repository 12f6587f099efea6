-- The same log in older vocabularies. noetl.event itself has the canonical names.

CREATE VIEW noetl.event_log AS SELECT * FROM noetl.event;

-- Names, data and meta of the loop-and-retry design (December 2025). An action is one attempt of a tool; later attempts
-- name the first as their parent, pages the page before.
CREATE VIEW noetl.event_legacy AS
WITH named AS (
    SELECT e.*,
           CASE e.event_type
               WHEN 'playbook.started'        THEN 'playbook_started'
               WHEN 'playbook.completed'      THEN 'playbook_completed'
               WHEN 'playbook.failed'         THEN 'playbook_failed'
               WHEN 'playbook.cancelled'      THEN 'playbook_cancelled'
               WHEN 'workflow.started'        THEN 'workflow_initialized'
               WHEN 'workflow.finished'       THEN 'workflow_' || lower(e.status)
               WHEN 'step.started'            THEN 'step_started'
               WHEN 'step.done'               THEN 'step_completed'
               WHEN 'step.failed'             THEN 'step_failed'
               WHEN 'step.skipped'            THEN 'step_skipped'
               WHEN 'step.cancelled'          THEN 'step_cancelled'
               WHEN 'task.attempt.started'    THEN 'action_started'
               WHEN 'task.attempt.done'       THEN 'action_completed'
               WHEN 'task.attempt.failed'     THEN 'action_failed'
               WHEN 'loop.started'            THEN 'iterator_started'
               WHEN 'loop.done'               THEN 'iterator_completed'
               WHEN 'loop.failed'             THEN 'iterator_failed'
               WHEN 'loop.iteration.started'  THEN 'iteration_started'
               WHEN 'loop.iteration.done'     THEN 'iteration_completed'
               WHEN 'loop.iteration.failed'   THEN 'iteration_completed'
               WHEN 'policy.task.evaluated'   THEN
                   CASE WHEN e.meta->>'do' IN ('retry', 'again') THEN 'retry_scheduled' END
               WHEN 'task.done'               THEN
                   CASE WHEN e.meta ? 'sequence' THEN 'retry_sequence_completed' END
           END AS legacy_type,
           e.event_type LIKE 'loop.iteration.%' AS is_iteration
    FROM noetl.event e
)
SELECT n.execution_id,
       n.catalog_id,
       n.event_id,
       coalesce((n.meta #>> '{retry,parent_event_id}')::bigint, n.parent_event_id) AS parent_event_id,
       CASE WHEN n.is_iteration THEN n.execution_id ELSE n.parent_execution_id END AS parent_execution_id,
       n.created_at,
       n.legacy_type::varchar AS event_type,
       n.node_id,
       n.node_name,
       n.node_type,
       CASE WHEN n.legacy_type = 'retry_scheduled' THEN 'PENDING' ELSE n.status END::varchar AS status,
       n.duration,
       n.context,
       n.result,
       jsonb_strip_nulls(CASE
           WHEN n.legacy_type LIKE 'action\_%' THEN jsonb_build_object(
               'step', n.meta->'step', 'tool', n.node_type, 'attempt_number', n.meta #> '{retry,attempt_number}',
               'page', n.meta->'page', 'retry_config', n.context->'retry_config',
               'result', n.result->'context', 'error', n.error)
           WHEN n.legacy_type = 'retry_scheduled' THEN
               jsonb_build_object('step', n.meta->'step', 'rule', n.meta->'rule') || coalesce(n.meta->'retry', '{}')
           WHEN n.legacy_type = 'retry_sequence_completed' THEN jsonb_build_object(
               'step', n.meta->'step', 'total_attempts', n.meta #> '{sequence,pages}',
               'strategy', n.meta #> '{sequence,strategy}', 'aggregated_result', n.result->'context')
           WHEN n.legacy_type = 'iterator_started' THEN n.meta->'iterator'
           WHEN n.legacy_type LIKE 'iterator\_%' THEN jsonb_build_object(
               'total_iterations', n.meta #> '{stats,total}', 'successful', n.meta #> '{stats,success}',
               'failed', n.meta #> '{stats,failed}', 'error', n.error)
           WHEN n.is_iteration THEN jsonb_build_object(
               'iteration_index', n.meta->'iteration', 'result', n.result->'context', 'error', n.error,
               'status', CASE n.status WHEN 'COMPLETED' THEN 'success' WHEN 'FAILED' THEN 'failed' END)
           ELSE jsonb_build_object(
               'step', CASE WHEN n.node_type = 'step' THEN n.node_name END,
               'result', n.result->'context', 'error', n.error)
       END) AS data,
       CASE WHEN n.is_iteration THEN n.meta || jsonb_build_object('iterator', jsonb_build_object(
                'iteration_index', n.meta->'iteration', 'parent_execution_id', n.execution_id))
            ELSE n.meta
       END AS meta,
       n.error,
       n.worker_id,
       n.event_time
FROM named n
WHERE n.legacy_type IS NOT NULL;

-- Names and envelope of the whitepaper. One row may be told as several events, in the order of ordinal.
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
       e.meta->>'step_run_id' AS step_run_id,
       e.meta->>'task_run_id' AS tool_run_id,
       e.meta->>'loop_id' AS loop_id,
       e.meta->>'iteration_id' AS iteration_id,
       CASE WHEN d.event_type LIKE 'Retry%' THEN e.parent_event_id END AS retry_id,
       (e.meta #>> '{retry,attempt_number}')::integer AS attempt,
       e.parent_event_id,
       CASE e.status WHEN 'COMPLETED' THEN 'success' WHEN 'SKIPPED' THEN 'success' WHEN 'FAILED' THEN 'error'
            WHEN 'CANCELLED' THEN 'cancelled' WHEN 'PAUSED' THEN 'paused' ELSE 'in_progress' END AS status,
       e.duration AS duration_sec,
       e.node_name,
       e.node_type,
       e.context AS input,
       e.result->'context' AS output,
       CASE WHEN e.error IS NOT NULL THEN coalesce(e.meta->'error', '{}') || jsonb_build_object('message', e.error) END AS error,
       e.meta AS metadata
FROM noetl.event e
JOIN noetl.catalog c USING (catalog_id)
JOIN (VALUES
    ('playbook.execution.requested', 1, 'PlaybookExecutionRequested'),
    ('playbook.request.evaluated',   1, 'PlaybookRequestEvaluated'),
    ('workflow.started',             1, 'WorkflowStarted'),
    ('step.started',                 1, 'StepStarted'),
    ('task.attempt.started',         1, 'RetryStarted'),
    ('task.attempt.started',         2, 'ToolStarted'),
    ('task.attempt.done',            1, 'ToolFinished'),
    ('task.attempt.done',            2, 'RetryProcessed'),
    ('task.attempt.failed',          1, 'ToolFinished'),
    ('task.attempt.failed',          2, 'RetryProcessed'),
    ('sink.started',                 1, 'SinkStarted'),
    ('sink.done',                    1, 'SinkProcessed'),
    ('sink.failed',                  1, 'SinkProcessed'),
    ('loop.started',                 1, 'LoopStarted'),
    ('loop.iteration.started',       1, 'LoopIterationStarted'),
    ('loop.iteration.done',          1, 'LoopIterationFinished'),
    ('loop.iteration.failed',        1, 'LoopIterationFinished'),
    ('loop.done',                    1, 'LoopFinished'),
    ('loop.failed',                  1, 'LoopFinished'),
    ('next.evaluated',               1, 'CaseStarted'),
    ('next.evaluated',               2, 'CaseEvaluated'),
    ('next.evaluated',               3, 'NextEvaluated'),
    ('workflow.finished',            1, 'WorkflowFinished'),
    ('playbook.paused',              1, 'PlaybookPaused'),
    ('playbook.completed',           1, 'PlaybookProcessed'),
    ('playbook.failed',              1, 'PlaybookProcessed'),
    ('playbook.cancelled',           1, 'PlaybookProcessed')
) AS d (source, ordinal, event_type) ON d.source = e.event_type
WHERE (d.event_type NOT LIKE 'Retry%' OR (e.meta #>> '{retry,attempt_number}')::integer > 1)
  AND (d.event_type NOT LIKE 'Case%' OR jsonb_array_length(coalesce(e.meta->'arcs', '[]')) > 0);
