"""What a service costs beside the same work in process: `python -m benchmarks.service [--quick]`."""
