"""Data sets of pictures: of one kind, of two kinds, and of pairs."""

from suites.generation.datasets.base import OneKind, Pairs, PictureSet, TwoKinds
from suites.generation.datasets.folders import PairedFolders, PictureFolder, SideBySide, TwoFolders

__all__ = ["OneKind", "PairedFolders", "Pairs", "PictureFolder", "PictureSet", "SideBySide", "TwoFolders", "TwoKinds"]
