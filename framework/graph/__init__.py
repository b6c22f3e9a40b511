"""Programs: a function's operations as data, rewritten by passes and run by a native plan."""

from framework.graph.compiled import CompiledProgram as CompiledProgram
from framework.graph.explanation import explain as explain
from framework.graph.function import program as program
from framework.graph.ir import Operation as Operation
from framework.graph.ir import Program as Program
from framework.graph.ir import Value as Value
from framework.graph.memory import MemoryReport as MemoryReport
