"""What rows are grouped by: clusters, units and times of a panel, fixed effects."""
