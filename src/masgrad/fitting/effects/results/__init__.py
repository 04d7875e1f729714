"""Results with fixed effects: records, predictions, files."""
