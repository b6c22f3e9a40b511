"""Samples with one label each: what image and video classification share."""
