"""What people read of runs: lists, reports, histories, replays, decoded payloads."""
