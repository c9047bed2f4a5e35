"""Tools to prove behaviour: scripted models, a fake clock, a provider emulator with faults, crash points.

This room is public, and must never be imported by the runtime itself; it must not need the network.
"""
