"""The wires of the emulator, one module each, with the functions of `EmulatorWire`.

A wire is pure: it parses a request from bytes and renders a reply to bytes.
"""
