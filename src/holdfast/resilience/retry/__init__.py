"""Retry: repeats failed attempts after a wait."""
