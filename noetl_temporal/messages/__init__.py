"""What clients, workflows and activities send to each other."""
