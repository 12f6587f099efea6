-- Indexes and statistics for reading logs of a million rows page by page.

-- Events in the order they happened. Ids are not in that order: those of attempts are assigned when their call ends.
CREATE INDEX event_by_time ON noetl.event (execution_id, event_time, event_id);

-- For the query steps: without it the planner expects a group for every few rows, and sorts all rows on disk.
CREATE STATISTICS noetl.event_step ON (coalesce(meta->>'step', node_name)) FROM noetl.event;
