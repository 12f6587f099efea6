-- The names of circuit breakers: neither older vocabulary has any for them.

INSERT INTO noetl.event_name (event_type, legacy, domain) VALUES
    ('circuit.opened', NULL, NULL),
    ('circuit.probed', NULL, NULL),
    ('circuit.closed', NULL, NULL)
ON CONFLICT DO NOTHING;
