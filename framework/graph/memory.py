"""Where the memory of a native run goes, value by value."""

from __future__ import annotations

from typing import Any

import numpy as np

from framework.graph.ir import Program, Value


class MemoryReport:
    """Bytes of a plan: in all, and by value."""

    def __init__(self, program: Program, numbers: dict[Value, int], plan: dict[str, Any], block_bytes: int = 0) -> None:
        self.block_bytes = block_bytes  # arenas of blocks, of the sizes that ran last
        self.arena_bytes: int = plan["arena_bytes"]
        self.lower_bound_bytes: int = plan["lower_bound_bytes"]
        self.naive_bytes: int = plan["naive_bytes"]
        self.in_place_count: int = plan["in_place_count"]
        self.state_bytes = sum(t._data.nbytes for t in program.states.values())
        self.rows: list[tuple[str, str, str, int]] = []  # operator, value, place, bytes; largest first
        for op in program.block:
            for v in op.outputs:
                shape, dtype, place, *_ = plan["values"][numbers[v]]
                size = int(np.prod(shape, dtype=np.int64)) * ITEM_SIZE[dtype]
                self.rows.append((op.name, f"{v}: {dtype}{list(shape)}", place, size))
        self.rows.sort(key=lambda row: -row[3])

    def __str__(self) -> str:
        mb = 1 / 2**20
        lines = [
            f"{self.naive_bytes * mb:.1f} MB of values -> {self.arena_bytes * mb:.1f} MB planned "
            f"(no plan can need less than {self.lower_bound_bytes * mb:.1f} MB), "
            f"{self.in_place_count} values in place, {self.state_bytes * mb:.1f} MB of states"
            + (f", {self.block_bytes * mb:.1f} MB for blocks" if self.block_bytes else "")
        ]
        lines += [f"{size * mb:10.2f} MB  {place:8}  {op:24} {value}" for op, value, place, size in self.rows[:20]]
        return "\n".join(lines)


ITEM_SIZE = {"float64": 8, "int64": 8, "float32": 4, "int32": 4, "float16": 2, "bfloat16": 2} | dict.fromkeys(
    ("int8", "uint8", "bool"), 1
)
