"""One call of a vendor's SDK under nine faults, with what people put around it.

`python -m benchmarks.sdk_calls` runs it. It must never count what a client says about itself: the emulator counts the
requests and their times.
"""
