"""Agents: their files, the aliases of models, and how work is delegated to another agent.

Nothing of a project is read here unless the person trusts its folder. An agent must never get a tool that
its file does not name.
"""
