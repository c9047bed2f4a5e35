"""Strategies that make one effect safe: declared as data, decided purely, waiting injected.

A strategy must never read the real clock, draw a real number, or know a provider or a tool. Each
file has the same shape: the options, the pure decision, the thin wrapper.
"""
