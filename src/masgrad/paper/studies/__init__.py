"""Studies of single results: laws, rates, the rotation of a root."""
