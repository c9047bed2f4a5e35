"""The conversation: agents that read a parent's messages and word the decisions of the server.

A model decides nothing here. `club` says which step comes next; tools that only code may call perform
the effects. This room must never move a step itself, and must never write personal data into a log.
"""
