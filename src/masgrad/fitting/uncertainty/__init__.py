"""From an optimum to standard errors: sandwich, chains, likelihood, diagnostics."""
