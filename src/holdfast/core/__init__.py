"""The pure core: messages, events, effects, errors, and the state machine that decides the next step.

This package must never use a clock, randomness, the network, a file or a thread: the same events
always give the same effects. It imports msgspec and no other package of Holdfast.
"""
