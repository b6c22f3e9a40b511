"""Imports every module whose components a config may name, so that they are registered."""

import suites.vision.backbones  # noqa: F401
