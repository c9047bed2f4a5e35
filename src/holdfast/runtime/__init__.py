"""The runtime: performs the pending effects of a run and saves their outcomes in the journal.

Read `driver.py` first. This room must never decide what happens next, because the machine decides
that. It must never put the private detail of an error into an event or a notice.
"""
