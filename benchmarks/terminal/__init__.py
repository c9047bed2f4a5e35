"""The terminal agent in a real terminal: `python -m benchmarks.terminal`.

This package must never measure inside of the program: it types, reads what is painted, and asks the system.
"""
