-- The rows that resets superseded.

-- The run or event that started a run, as far as it is known (origins.py). All runs that continue a run or that resets created
-- from it have its first_run_id. A run that a reset created has the events of base_run_id before base_event_id. A chunk or a
-- called playbook was started by the event parent_event_id of parent_run_id.
ALTER TABLE noetl.cursor
    ADD COLUMN first_run_id     TEXT,
    ADD COLUMN continued_run_id TEXT,
    ADD COLUMN base_run_id      TEXT,
    ADD COLUMN base_event_id    BIGINT,
    ADD COLUMN parent_run_id    TEXT,
    ADD COLUMN parent_event_id  BIGINT;
CREATE INDEX cursor_reset ON noetl.cursor (execution_id) WHERE base_run_id IS NOT NULL;
CREATE INDEX cursor_called ON noetl.cursor (execution_id) WHERE workflow_type = 'noetl.playbook' AND parent_run_id IS NOT NULL;
CREATE INDEX cursor_run ON noetl.cursor (run_id);

-- The histories of an execution that resets superseded, and from which of their events on (dev/decisions/0038). There are few,
-- however many rows the execution has.
CREATE FUNCTION noetl.superseded_streams(of_execution BIGINT) RETURNS TABLE (stream_id TEXT, superseded_from BIGINT)
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    IF NOT EXISTS (SELECT FROM noetl.cursor WHERE execution_id = of_execution AND base_run_id IS NOT NULL)
       AND (SELECT count(DISTINCT first_run_id) FROM noetl.cursor WHERE execution_id = of_execution
            AND workflow_type = 'noetl.playbook' AND parent_run_id IS NOT NULL) < 2 THEN
        RETURN;
    END IF;
    RETURN QUERY WITH RECURSIVE called AS (
        -- The starts of a called playbook, which a reset of its caller repeats, ranked: the last of those that the caller's
        -- history still has comes first, and only that one counts.
        SELECT c.first_run_id, row_number() OVER (ORDER BY EXISTS (
                   SELECT FROM noetl.cursor p, noetl.superseded_streams(p.execution_id) s
                   WHERE p.run_id = c.parent_run_id AND p.execution_id <> of_execution AND s.stream_id = p.workflow_id || '/' || p.run_id
                     AND c.parent_event_id >= s.superseded_from
               ), h.event_time DESC, c.run_id DESC) AS rank
        FROM noetl.cursor c
        JOIN noetl.history h ON (h.namespace, h.workflow_id, h.run_id, h.event_id) = (c.namespace, c.workflow_id, c.run_id, 1)
        WHERE c.execution_id = of_execution AND c.workflow_type = 'noetl.playbook' AND c.parent_run_id IS NOT NULL
          AND c.run_id = c.first_run_id
    ), run AS (
        SELECT c.run_id, c.workflow_id || '/' || c.run_id AS stream_id, c.first_run_id, c.base_run_id, c.base_event_id,
               coalesce(c.base_run_id, c.continued_run_id) AS previous_run_id, c.parent_run_id, c.parent_event_id,
               h.event_time AS start_time, e.event_time AS report_time
        FROM noetl.cursor c
        JOIN noetl.history h ON (h.namespace, h.workflow_id, h.run_id, h.event_id)
            = (c.namespace, c.workflow_id, c.run_id, coalesce(c.base_event_id, 1))
        LEFT JOIN noetl.history e ON c.workflow_type = 'noetl.loop' AND e.event_type = 'WORKFLOW_EXECUTION_COMPLETED'
            AND (e.namespace, e.workflow_id, e.run_id, e.event_id) = (c.namespace, c.workflow_id, c.run_id, c.position)
        WHERE c.execution_id = of_execution
    ), latest AS (
        -- A chunk that is reset after its end changes nothing: its playbook has the report of the run that completed first.
        SELECT DISTINCT ON (first_run_id) run_id FROM run ORDER BY first_run_id, report_time, start_time DESC, run_id DESC
    ), lineage (run_id, superseded_from) AS (
        -- The latest run of each workflow, and the runs whose events it has: all events, or those before superseded_from.
        SELECT run_id, NULL::bigint FROM latest
        UNION
        SELECT run.previous_run_id,
               CASE WHEN run.base_run_id IS NOT NULL THEN least(lineage.superseded_from, run.base_event_id) END
        FROM lineage JOIN run USING (run_id)
        WHERE run.previous_run_id IS NOT NULL
    ), superseded (run_id, superseded_from) AS (
        -- The lineage and the runs that branch off: those share its first events, unless they continued as new.
        SELECT run_id, superseded_from FROM lineage
        UNION
        SELECT run.run_id, CASE WHEN run.base_run_id IS NULL THEN 0 ELSE least(superseded.superseded_from, run.base_event_id) END
        FROM superseded JOIN run ON run.previous_run_id = superseded.run_id
        WHERE run.run_id NOT IN (SELECT run_id FROM lineage)
    ), dropped AS (
        -- Chunks that a superseded event started, earlier starts of a called playbook, and their chunks.
        SELECT run.first_run_id FROM run JOIN superseded ON superseded.run_id = run.parent_run_id
        WHERE run.parent_event_id >= superseded.superseded_from
        UNION
        SELECT called.first_run_id FROM called WHERE called.rank > 1
        UNION
        SELECT run.first_run_id FROM dropped JOIN run parent USING (first_run_id) JOIN run ON run.parent_run_id = parent.run_id
    ), stream AS (
        SELECT run.stream_id,
               CASE WHEN dropped.first_run_id IS NULL THEN superseded.superseded_from ELSE 0 END AS superseded_from
        FROM run LEFT JOIN superseded USING (run_id) LEFT JOIN dropped USING (first_run_id)
    )
    SELECT stream_id, min(superseded_from) FROM stream WHERE superseded_from IS NOT NULL GROUP BY stream_id;
END
$$;

-- The rows of an execution that resets superseded (dev/decisions/0038): their events are in no current history of the
-- execution. Readers, who cannot read cursors, may call it.
CREATE FUNCTION noetl.superseded_events(of_execution BIGINT) RETURNS TABLE (event_id BIGINT)
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan AS $$
#variable_conflict use_column
DECLARE
    streams TEXT[];
    points  BIGINT[];
BEGIN
    SELECT array_agg(stream_id), array_agg(superseded_from) INTO streams, points
    FROM noetl.superseded_streams(of_execution);
    IF streams IS NULL THEN
        RETURN;
    END IF;
    -- A separate statement, so that it is planned for the number of streams: otherwise each event is compared with each stream.
    RETURN QUERY
    SELECT e.event_id FROM noetl.event e
    JOIN unnest(streams, points) AS superseded (stream_id, since)
        ON superseded.stream_id = e.stream_id AND e.stream_version >= superseded.since
    WHERE e.execution_id = of_execution;
END
$$;
