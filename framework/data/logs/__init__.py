"""Click logs (CSV, TSV, slot logs, Parquet; plain or compressed) to batches of signs; see docs/ctr_data.md."""

from framework.data.logs.faults import LogFaults
from framework.data.logs.reader import LogReader
from framework.data.logs.schema import LogSchema

__all__ = ["LogFaults", "LogReader", "LogSchema"]
