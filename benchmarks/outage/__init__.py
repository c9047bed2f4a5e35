"""What a fleet of clients does to a provider that is ill, by simulation in virtual time.

`python -m benchmarks.outage` runs it. The decisions are the library's own pure functions; nothing
here may decide for it, and nothing sleeps.
"""
