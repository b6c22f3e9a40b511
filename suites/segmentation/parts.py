"""Imports every module whose components a config may name, so that they are registered."""

import suites.segmentation.datasets
import suites.segmentation.inspection
import suites.segmentation.losses
import suites.segmentation.openmmlab
import suites.segmentation.settings
import suites.segmentation.task
import suites.segmentation.transforms  # noqa: F401
from framework.modules import import_all

import_all("suites.segmentation.models")
