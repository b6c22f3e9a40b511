"""Imports every module whose components a config may name, so that they are registered."""

import suites.segmentation.datasets
import suites.segmentation.inspection
import suites.segmentation.losses
import suites.segmentation.models.bisenet_v2
import suites.segmentation.models.deeplab_v3plus
import suites.segmentation.models.fast_scnn
import suites.segmentation.models.hrnet
import suites.segmentation.models.icnet
import suites.segmentation.models.pspnet
import suites.segmentation.models.unet
import suites.segmentation.settings
import suites.segmentation.task
import suites.segmentation.transforms  # noqa: F401
