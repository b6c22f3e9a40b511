"""Models of good pictures, on any backbone."""
