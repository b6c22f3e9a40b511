"""Video classification datasets: folders of frames, and video files."""

from suites.video.datasets.base import VideoDataset
from suites.video.datasets.features import ClipFeatures
from suites.video.datasets.folder import ClipFolder
from suites.video.datasets.frames import FrameFolders
from suites.video.datasets.joined import Joined
from suites.video.datasets.videos import VideoFiles
from suites.video.datasets.youtube8m import YouTube8M

__all__ = ["ClipFeatures", "ClipFolder", "FrameFolders", "Joined", "VideoDataset", "VideoFiles", "YouTube8M"]
