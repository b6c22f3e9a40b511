"""What differs between operating systems, a module for each: all others ask here, and none asks which system it is on.

Each has the way of Linux, and a portable one where that is missing; `tests/test_system.py` finds who goes past it.
"""
