"""What may be added to the training loop: each hook is one concern, in one file."""

from suites.engine.train.hooks.assess import Assess
from suites.engine.train.hooks.averaging import AverageLater
from suites.engine.train.hooks.events import Events
from suites.engine.train.hooks.guard import NanGuard
from suites.engine.train.hooks.interval import Interval, TimeLimit
from suites.engine.train.hooks.profiling import Profiling
from suites.engine.train.hooks.progress import ProgressBar
from suites.engine.train.hooks.saving import Saving
from suites.engine.train.hooks.skipped import SkippedSamples
from suites.engine.train.loop import Hook

__all__ = [
    "Assess",
    "AverageLater",
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
