"""Data sets of text: pictures with outlines and words, and pictures of single lines with a list."""

from suites.ocr.datasets.folder import recognise
from suites.ocr.datasets.lines import LineList
from suites.ocr.datasets.pages import IcdarText, PaddleText
from suites.ocr.datasets.tools import LabelmeText, TextOcr

__all__ = ["IcdarText", "LabelmeText", "LineList", "PaddleText", "TextOcr", "recognise"]
