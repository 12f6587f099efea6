-- The names of waits, signals and approvals: neither older vocabulary has any for them.

INSERT INTO noetl.event_name (event_type, legacy, domain) VALUES
    ('wait.started',       NULL, NULL),
    ('wait.done',          NULL, NULL),
    ('wait.timed_out',     NULL, NULL),
    ('wait.cancelled',     NULL, NULL),
    ('signal.received',    NULL, NULL),
    ('approval.requested', NULL, NULL),
    ('approval.decided',   NULL, NULL)
ON CONFLICT DO NOTHING;
