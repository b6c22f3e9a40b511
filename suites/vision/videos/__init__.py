"""Video files and cameras: frames in and out."""
