"""What Holdfast costs, measured against the least code that does the same work.

Every case has two sides of one shape: `floor`, which is aiohttp and msgspec and nothing else, and
`ours`. They talk to one server process, send equal requests and read the same fields, and are
measured in turns within one run, so that a noisy machine disturbs both. This package must never
be imported by `holdfast`, and must never reach beyond the loopback interface.
"""
