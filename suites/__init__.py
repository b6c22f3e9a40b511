"""Task suites: each folder takes one kind of task from raw data to a served model."""
