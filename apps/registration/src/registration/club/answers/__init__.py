"""Validators: one function for each kind of answer, which accepts any text and never raises.

This room must never choose the next question, and a validator must never read the clock: `Asked.today` is the date.
"""
