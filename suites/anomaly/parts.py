"""Imports every module whose components a config may name, so that they are registered."""

import suites.anomaly.datasets
import suites.anomaly.inspection
import suites.anomaly.settings
import suites.anomaly.task
import suites.anomaly.transforms  # noqa: F401
from framework.modules import import_all

import_all("suites.anomaly.models")
