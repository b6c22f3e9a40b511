"""Imports every module whose components a config may name, so that they are registered."""

import suites.detection.datasets
import suites.detection.inspection
import suites.detection.models.fpn
import suites.detection.models.rcnn
import suites.detection.models.retinanet
import suites.detection.models.ssd
import suites.detection.models.yolov3
import suites.detection.settings
import suites.detection.task
import suites.detection.transforms  # noqa: F401
