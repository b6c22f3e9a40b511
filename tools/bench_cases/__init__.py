"""The workloads that tools/bench.py times, a file a suite; each has CASES by name."""
