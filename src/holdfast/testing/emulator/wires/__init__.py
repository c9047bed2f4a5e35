"""The wires of the emulator, one module each.

A wire has the functions of `EmulatorWire`, and is pure: it parses a request from bytes and renders a reply to bytes.
"""
