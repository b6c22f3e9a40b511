"""Imports every module whose components a config may name, so that they are registered."""

import suites.detection.datasets
import suites.detection.fitting
import suites.detection.inspection
import suites.detection.openmmlab
import suites.detection.settings
import suites.detection.task
import suites.detection.transforms  # noqa: F401
from framework.modules import import_all

import_all("suites.detection.models")
