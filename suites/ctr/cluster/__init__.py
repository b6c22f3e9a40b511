"""Training on many machines: trainers that read the log, shards that hold the rows, and the head that watches them.

docs/howto/cluster.md says how to run it and what is promised when what fails.
"""
