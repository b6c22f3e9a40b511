"""Profiles: which operators ran, for how long, how, and how close they came to what the machine can do."""

from framework.profiler.profile import Call as Call
from framework.profiler.profile import Profile as Profile
from framework.profiler.profile import Row as Row
from framework.profiler.work import Work as Work
from framework.profiler.work import work as work
