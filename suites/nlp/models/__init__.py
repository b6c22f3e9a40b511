"""Text encoders and what stands on them, one file a family."""
