-- The events of waits, signals and approvals, for which neither older vocabulary has names.

INSERT INTO noetl.event_name (event_type, legacy, domain) VALUES
    ('wait.started',       NULL, NULL),
    ('wait.done',          NULL, NULL),
    ('wait.timed_out',     NULL, NULL),
    ('wait.cancelled',     NULL, NULL),
    ('signal.received',    NULL, NULL),
    ('approval.requested', NULL, NULL),
    ('approval.decided',   NULL, NULL)
ON CONFLICT DO NOTHING;
