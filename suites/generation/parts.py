"""Imports every module whose components a config may name, so that they are registered."""

import suites.generation.datasets
import suites.generation.inspection
import suites.generation.settings
import suites.generation.task
import suites.generation.transforms  # noqa: F401
from framework.modules import import_all

import_all("suites.generation.models")
