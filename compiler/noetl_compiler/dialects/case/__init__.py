"""The case dialect: steps with rules about events (dev/decisions/0011)."""
