"""Image classification datasets: a folder a class, a list file, and scikit-learn's handwritten digits."""

from suites.classification.datasets.digits import Digits
from suites.classification.datasets.files import ImageFolder, ImageList

__all__ = ["Digits", "ImageFolder", "ImageList"]
