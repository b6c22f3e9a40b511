"""What may be added to the training loop: each hook is one concern, in one file."""

from suites.engine.hooks.assess import Assess
from suites.engine.hooks.base import Hook
from suites.engine.hooks.events import Events
from suites.engine.hooks.guard import NanGuard
from suites.engine.hooks.interval import Interval, TimeLimit
from suites.engine.hooks.profiling import Profiling
from suites.engine.hooks.progress import ProgressBar
from suites.engine.hooks.saving import Saving
from suites.engine.hooks.skipped import SkippedSamples

__all__ = [
    "Assess",
    "Events",
    "Hook",
    "Interval",
    "NanGuard",
    "Profiling",
    "ProgressBar",
    "Saving",
    "SkippedSamples",
    "TimeLimit",
]
