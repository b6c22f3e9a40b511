"""Imports every module whose components a config may name, so that they are registered."""

import suites.ocr.config
import suites.ocr.datasets
import suites.ocr.inspection
import suites.ocr.task
import suites.ocr.transforms  # noqa: F401
from framework.modules import import_all

import_all("suites.ocr.models")
