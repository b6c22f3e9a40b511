"""Imports every module whose components a config may name, so that they are registered."""

import suites.ctr.cluster.run
import suites.ctr.datasets
import suites.ctr.schema.features
import suites.ctr.settings  # noqa: F401
from framework.modules import import_all

import_all("suites.ctr.inspection")
import_all("suites.ctr.models")
import_all("suites.ctr.task")
