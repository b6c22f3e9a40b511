"""Control flow that depends on data: `cond`, `while_loop` and `scan`, with bodies that are blocks of the Program.

Eagerly they are Python's own `if` and `for`. While a Program is traced each body is traced once, into a block with
plans of its own, and the native plan decides at each run which block runs, and how often.
"""

from framework.control import gradient as _gradient
from framework.control.flow import cond as cond
from framework.control.flow import scan as scan
from framework.control.flow import while_loop as while_loop

del _gradient
