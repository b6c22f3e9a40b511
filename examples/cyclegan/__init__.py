"""CycleGAN (Zhu et al. 2017, arXiv:1703.10593): a suite that stands outside of Paddock.

Importing this package registers the suite `cyclegan`: its config, its task, and data sets that a config can name.
"""

from .data import DigitStyle
from .models import Discriminator, Generator
from .processor import StyleProcessor
from .settings import CycleConfig
from .task import CycleTask

__all__ = ["CycleConfig", "CycleTask", "DigitStyle", "Discriminator", "Generator", "StyleProcessor"]
