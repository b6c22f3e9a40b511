"""How files that people bring are read: folders and archives, texts, tables, and what is left out."""
