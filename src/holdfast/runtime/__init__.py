"""The runtime: performs the effects that the machine asks for, and saves their outcomes in the journal.

`driver.py` is the first file to read. This room must never decide what happens next: that is the
machine's, and it must never put the private half of an error into an event or a notice.
"""
