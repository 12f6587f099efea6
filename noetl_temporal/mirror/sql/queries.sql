-- events_of --
select event_id, parent_event_id, event_type, node_name, node_type, status, created_at, duration,
       result::text as result, meta::text as meta, error
from noetl.event where execution_id = $1 order by event_id

-- execution_of --
select e.execution_id, c.path, c.version, e.status, e.start_time, e.end_time, e.error,
       (select count(*) from noetl.event v where v.execution_id = e.execution_id) as events
from noetl.execution e join noetl.catalog c using (catalog_id)
where e.execution_id = $1

-- cursor_of --
select event_id, closed, state::text as state from noetl.cursor
where namespace = $1 and workflow_id = $2 and run_id = $3

-- insert_history --
insert into noetl.history (namespace, workflow_id, run_id, event_id, event_type, event_time, proto)
select $1, $2, $3, u.event_id, u.event_type, u.event_time, u.proto
from unnest($4::bigint[], $5::text[], $6::timestamptz[], $7::bytea[]) as u (event_id, event_type, event_time, proto)
on conflict do nothing

-- save_cursor --
insert into noetl.cursor (namespace, workflow_id, run_id, event_id, closed, state, updated_at)
values ($1, $2, $3, $4, $5, $6::jsonb, now())
on conflict (namespace, workflow_id, run_id)
do update set event_id = excluded.event_id, closed = excluded.closed, state = excluded.state, updated_at = now()

-- catalog_id_of --
select catalog_id from noetl.catalog where path = $1 and content is not distinct from $2
order by version desc limit 1

-- lock_path --
select pg_advisory_xact_lock(hashtextextended($1, 7))

-- insert_catalog --
insert into noetl.catalog (path, version, kind, content, meta)
select $1, coalesce(max(version), 0) + 1, 'playbook', $2, $3::jsonb from noetl.catalog where path = $1
returning catalog_id

-- execution_catalog --
select catalog_id from noetl.execution where execution_id = $1

-- insert_execution --
insert into noetl.execution (execution_id, catalog_id, parent_execution_id, status, start_time)
values ($1, $2, $3, 'RUNNING', $4)
on conflict (execution_id) do nothing

-- touch_execution --
update noetl.execution set
    last_event_type = $2, last_node_name = $3, last_event_id = $4, updated_at = now(),
    status = case when $5::text is null then status else $5 end,
    end_time = case when $5::text is null then end_time else $6 end,
    error = coalesce($7, error)
where execution_id = $1 and coalesce(last_event_id, 0) <= $4

-- insert_events --
insert into noetl.event (
    execution_id, catalog_id, event_id, parent_event_id, parent_execution_id, created_at, event_time, event_type,
    node_id, node_name, node_type, status, duration, context, result, meta, error, stack_trace, worker_id,
    producer, idempotency_key)
select $1, $2, u.event_id, u.parent_event_id, $3, u.event_time at time zone 'utc', u.event_time, u.event_type,
       u.node_name, u.node_name, u.node_type, u.status, u.duration, u.context::jsonb, u.result::jsonb, u.meta::jsonb,
       u.error, u.stack_trace, u.worker_id, 'noetl-temporal', u.idempotency_key
from unnest($4::bigint[], $5::bigint[], $6::timestamptz[], $7::text[], $8::text[], $9::text[], $10::text[],
            $11::float8[], $12::text[], $13::text[], $14::text[], $15::text[], $16::text[], $17::text[], $18::text[])
    as u (event_id, parent_event_id, event_time, event_type, node_name, node_type, status, duration, context, result,
          meta, error, stack_trace, worker_id, idempotency_key)
on conflict do nothing

-- history_runs --
select namespace, workflow_id, run_id from noetl.history
group by namespace, workflow_id, run_id order by min(event_time), workflow_id, run_id

-- history_of --
select event_id, proto from noetl.history
where namespace = $1 and workflow_id = $2 and run_id = $3 order by event_id

-- open_runs --
select workflow_id, run_id, event_id from noetl.cursor where namespace = $1 and not closed

-- known_runs --
select run_id from noetl.cursor where namespace = $1 and run_id = any($2::text[])

-- count_history --
select count(*) from noetl.history where namespace = $1 and workflow_id = $2 and run_id = $3
