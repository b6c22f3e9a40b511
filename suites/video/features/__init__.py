"""Features of videos: the files they lie in, and the networks they come from."""

from suites.video.features.store import FeatureStore, FeatureWriter

__all__ = ["FeatureStore", "FeatureWriter"]
