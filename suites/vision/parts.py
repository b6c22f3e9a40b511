"""Imports every module whose components a config may name, so that they are registered."""

import suites.vision.backbones
import suites.vision.pictures.thumbnails
import suites.vision.published  # noqa: F401
