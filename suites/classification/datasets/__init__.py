"""Image classification datasets: a folder a class, a list file, ImageNet, and scikit-learn's handwritten digits."""

from suites.classification.datasets.digits import Digits
from suites.classification.datasets.files import ImageFolder, ImageList, ImageNet
from suites.classification.datasets.folder import PhotoFolder
from suites.classification.datasets.joined import Joined

__all__ = ["Digits", "ImageFolder", "ImageList", "ImageNet", "Joined", "PhotoFolder"]
