"""The peers' side of the comparisons, run in the interpreter of --peer-python."""
