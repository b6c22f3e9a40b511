"""The server's side of HTTP: routes, protocols, gates, connections, its log."""
