"""Data sets of text: pictures with outlines and words, and pictures of single lines with a list."""

from suites.ocr.datasets.lines import LineList
from suites.ocr.datasets.pages import IcdarText, PaddleText

__all__ = ["IcdarText", "LineList", "PaddleText"]
