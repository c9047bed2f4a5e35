"""Who may call the service, from where, and how much: keys, sign-ins, origins, limits.

Decisions are pure functions; ASGI middlewares apply them. This room must never store a key or write
one to a log, and must never know a session or a run.
"""
