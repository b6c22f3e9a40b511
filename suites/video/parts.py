"""Imports every module whose components a config may name, so that they are registered."""

import suites.video.crops
import suites.video.datasets
import suites.video.inspection
import suites.video.losses
import suites.video.openmmlab
import suites.video.sequences
import suites.video.settings
import suites.video.task
import suites.video.transforms  # noqa: F401
from framework.modules import import_all

import_all("suites.video.models")
