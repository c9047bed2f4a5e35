"""The pure core: messages, events, effects, errors, and the state machine that says what happens next.

This room must never know a clock, dice, a network, a file or a thread: same facts in, same effects out.
It imports msgspec and nothing else of the package.
"""
