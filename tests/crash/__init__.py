"""Kills real processes at any instant. Acknowledged records must be there afterwards, and none may be half written."""
