"""Imports every module whose components a config may name, so that they are registered."""

import suites.segmentation.datasets
import suites.segmentation.losses
import suites.segmentation.models.deeplab_v3plus
import suites.segmentation.settings
import suites.segmentation.task
import suites.segmentation.transforms  # noqa: F401
