-- The events of circuit breakers, for which neither older vocabulary has names.

INSERT INTO noetl.event_name (event_type, legacy, domain) VALUES
    ('circuit.opened', NULL, NULL),
    ('circuit.probed', NULL, NULL),
    ('circuit.closed', NULL, NULL)
ON CONFLICT DO NOTHING;
