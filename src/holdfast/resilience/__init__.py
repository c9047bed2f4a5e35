"""Strategies that make one effect safe: declared as data, decided purely, waiting injected.

A strategy must never read the real clock, draw a real number, or know a provider or a tool. Each has
the same three parts: the options, the pure decision on explicit state, the thin wrapper. Where runs
share the state, the decision has a file of its own (`breaker`, `limiter`, `cache`) and the wrapper
stands with the holder of the state (`circuit`, `throttle`, `replay`).
"""
