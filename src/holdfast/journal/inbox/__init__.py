"""The inbox of a journal: which turns are to be done, in which order, and how many at once.

The inbox has the work to do, the journal the work that was done, a lease who does it. An engine carries
hints of both and may lose or double them. This room must never run a turn, and must never say that a
turn was done without the journal.
"""
