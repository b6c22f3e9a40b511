"""Records of published weights: what they are, where they come from and how to recognise them. One YAML file each in
`zoo/`, which is part of the wheel.
"""

from typing import TYPE_CHECKING

from framework.lazy import exports

if TYPE_CHECKING:
    from suites.engine.weights.records.record import Archive as Archive
    from suites.engine.weights.records.record import File as File
    from suites.engine.weights.records.record import Record as Record
    from suites.engine.weights.records.record import check_beginning as check_beginning
    from suites.engine.weights.records.record import find_record as find_record
    from suites.engine.weights.records.record import get_record as get_record
    from suites.engine.weights.records.record import is_address as is_address
    from suites.engine.weights.records.record import read_record as read_record
    from suites.engine.weights.records.shelf import FOLDER_VARIABLE as FOLDER_VARIABLE
    from suites.engine.weights.records.shelf import Brief as Brief
    from suites.engine.weights.records.shelf import read_brief as read_brief
    from suites.engine.weights.records.shelf import record_names as record_names
    from suites.engine.weights.records.shelf import records_folder as records_folder
    from suites.engine.weights.records.shelf import zoo_folder as zoo_folder

_MODULES = {
    "record": "Archive File Record check_beginning find_record get_record is_address read_record",
    "shelf": "FOLDER_VARIABLE Brief read_brief record_names records_folder zoo_folder",
}

__getattr__, __dir__ = exports(__name__, {name: module for module, names in _MODULES.items() for name in names.split()})
