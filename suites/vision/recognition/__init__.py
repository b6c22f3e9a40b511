"""Samples with one label each: what image and video classification share. An image is a clip of one frame."""
