"""Imports every module whose components a config may name, so that they are registered."""

import suites.ctr.cluster.run
import suites.ctr.datasets
import suites.ctr.inspection.comparing
import suites.ctr.inspection.guess
import suites.ctr.inspection.inspector
import suites.ctr.inspection.recognising
import suites.ctr.models.autoint
import suites.ctr.models.dcn
import suites.ctr.models.deepfm
import suites.ctr.models.dien
import suites.ctr.models.din
import suites.ctr.models.dnn
import suites.ctr.models.fm
import suites.ctr.models.lr
import suites.ctr.models.multitask
import suites.ctr.models.retrieval
import suites.ctr.models.xdeepfm
import suites.ctr.schema.features
import suites.ctr.settings
import suites.ctr.task.ranking
import suites.ctr.task.retrieval  # noqa: F401
