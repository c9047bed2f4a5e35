"""Validators: one function for each kind of answer, which accepts any text and never raises.

This room must never decide what is asked next, and a validator must never read the clock: `Asked.today` is the date.
"""
