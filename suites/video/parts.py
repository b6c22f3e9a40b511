"""Imports every module whose components a config may name, so that they are registered."""

import suites.video.crops
import suites.video.datasets
import suites.video.inspection
import suites.video.losses
import suites.video.models.attention_cluster
import suites.video.models.attention_lstm
import suites.video.models.nextvlad
import suites.video.models.non_local
import suites.video.models.resnet3d
import suites.video.models.stnet
import suites.video.models.tsm
import suites.video.models.tsn
import suites.video.sequences
import suites.video.settings
import suites.video.task
import suites.video.transforms  # noqa: F401
