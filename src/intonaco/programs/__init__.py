"""Programs: components compiled once for one spec, kept in an artifact store, bound to weights at load."""
