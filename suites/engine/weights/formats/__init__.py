"""Weight files of other frameworks as named arrays; nothing in them runs."""
