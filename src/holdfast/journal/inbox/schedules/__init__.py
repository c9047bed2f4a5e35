"""Schedules: turns that are submitted at certain times, exactly one for each tick, by any number of workers."""
