"""Video classification datasets: folders of frames, and video files."""

from suites.video.datasets.base import VideoDataset
from suites.video.datasets.features import ClipFeatures
from suites.video.datasets.frames import FrameFolders
from suites.video.datasets.videos import VideoFiles

__all__ = ["ClipFeatures", "FrameFolders", "VideoDataset", "VideoFiles"]
