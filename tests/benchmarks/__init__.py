"""What a tool call costs here, beside a bare floor and upstream: `python -m tests.benchmarks`."""
