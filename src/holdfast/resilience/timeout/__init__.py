"""Time limits: of one attempt, of a whole call, and limits that can be paused."""
