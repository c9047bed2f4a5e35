"""The wires that the emulator speaks, one module each; all offer the functions of `Wire`.

A wire is pure: bytes to a request, a reply to bytes. It must never open a socket or read a clock.
"""
