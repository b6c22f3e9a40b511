"""Newer rows and weights beside an export: a run publishes them, who serves takes them up without a pause."""

from suites.ctr.serving.published import publish
from suites.ctr.serving.publishing import Publish, PublishSettings
from suites.ctr.serving.served import ServedRows

__all__ = ["Publish", "PublishSettings", "ServedRows", "publish"]
