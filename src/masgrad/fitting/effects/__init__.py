"""Fixed effects: linear effects of the levels of one or more groupings, eliminated exactly."""
