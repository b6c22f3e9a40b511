"""What is asked of the networks of text: whole pages, finding texts, reading lines; one file each."""
