"""alpha, gamma and the condition numbers over a region."""
