"""Imports every module whose components a config may name, so that they are registered."""

import suites.retrieval.config
import suites.retrieval.datasets
import suites.retrieval.inspection
import suites.retrieval.losses
import suites.retrieval.task
import suites.retrieval.transforms  # noqa: F401
from framework.modules import import_all

import_all("suites.retrieval.models")
