"""Imports every module whose components a config may name, so that they are registered."""

import suites.classification.datasets
import suites.classification.inspection
import suites.classification.losses
import suites.classification.settings
import suites.classification.task
import suites.classification.transforms
import suites.classification.whole  # noqa: F401
from framework.modules import import_all

import_all("suites.classification.models")
