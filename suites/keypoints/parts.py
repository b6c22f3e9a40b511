"""Imports every module whose components a config may name, so that they are registered."""

import suites.keypoints.datasets
import suites.keypoints.inspection
import suites.keypoints.settings
import suites.keypoints.task
import suites.keypoints.transforms  # noqa: F401
from framework.modules import import_all

import_all("suites.keypoints.models")
