"""Imports every module whose components a config may name, so that they are registered."""

import suites.detection.datasets
import suites.detection.transforms  # noqa: F401
