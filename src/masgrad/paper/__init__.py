"""The paper's numerical experiments, one a file."""
