"""Agents whose turns this process drives in the background, whoever is connected, for each tenant.

The service and the worker are shells around this room. It must never speak HTTP, must never decide who
may do something, and must never hold a truth that is not in the journal.
"""
