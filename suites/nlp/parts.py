"""Imports every module whose components a config may name, so that they are registered."""

import suites.nlp.datasets
import suites.nlp.inspection
import suites.nlp.models.bert
import suites.nlp.models.bow
import suites.nlp.models.cnn
import suites.nlp.models.crf
import suites.nlp.models.heads
import suites.nlp.models.recurrent
import suites.nlp.models.simnet
import suites.nlp.models.vectors
import suites.nlp.problems
import suites.nlp.settings
import suites.nlp.task
import suites.nlp.tokenizers
import suites.nlp.transforms  # noqa: F401
