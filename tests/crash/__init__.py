"""Real processes, killed in the middle: what was acknowledged is there, and nothing is torn."""
