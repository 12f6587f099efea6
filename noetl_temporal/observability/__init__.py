"""What operators see of workers: traces, metrics, health."""
