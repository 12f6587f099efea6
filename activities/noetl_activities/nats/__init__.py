"""The tool nats."""
