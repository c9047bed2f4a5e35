"""Fallback: asks another model when the first one fails."""
