"""Networks that find text, say which way up it is, and read it; one file a family."""
