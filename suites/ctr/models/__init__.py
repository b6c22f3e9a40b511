"""The architectures, a file each."""
