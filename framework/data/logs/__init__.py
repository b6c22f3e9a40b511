"""Click logs (CSV, TSV, slot logs, Parquet; plain or compressed) to batches of signs; see docs/howto/ctr_data.md."""

from framework.data.logs.faults import LogFaults
from framework.data.logs.folders import LogFolders
from framework.data.logs.reader import LogReader
from framework.data.logs.schema import LogSchema
from framework.data.logs.tail import LogTail
from framework.data.logs.waiting import Patience

__all__ = ["LogFaults", "LogFolders", "LogReader", "LogSchema", "LogTail", "Patience"]
