"""The shell: asks the machine what is pending, performs it, journals the outcome, and asks again.

This room must never decide what happens next (core does) nor how a wire looks (codecs do).
The only broad except of the package stands here, in the file that performs effects.
"""
