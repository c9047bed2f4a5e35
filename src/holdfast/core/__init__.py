"""What happens next: messages, facts, acts, errors, and the pure machine that folds facts into pending acts.

This room must never know a clock, dice, a network, a file or a thread: same facts in, same effects out.
It imports msgspec and nothing else of the package.
"""
