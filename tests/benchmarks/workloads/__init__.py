"""One file a workload; each has a `WORKLOAD`."""
