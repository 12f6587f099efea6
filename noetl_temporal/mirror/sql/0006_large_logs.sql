-- What it takes to read logs of a million rows a page at a time.

-- Rows in the order they happened, from either end. Ids are not in that order: an attempt's are given when its call ends.
CREATE INDEX event_by_time ON noetl.event (execution_id, event_time, event_id);

-- Of the query steps: without it the planner expects a group for every few rows, and sorts all of them on disk.
CREATE STATISTICS noetl.event_step ON (coalesce(meta->>'step', node_name)) FROM noetl.event;
