"""Imports every module whose components a config may name, so that they are registered."""

import suites.nlp.datasets
import suites.nlp.inspection
import suites.nlp.problems
import suites.nlp.settings
import suites.nlp.slim.pruning
import suites.nlp.task
import suites.nlp.tokenizers
import suites.nlp.transforms
import suites.nlp.whole  # noqa: F401
from framework.modules import import_all

import_all("suites.nlp.models")
