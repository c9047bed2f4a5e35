"""Schedules: turns that are submitted at certain times."""
