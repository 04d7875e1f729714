"""The paper's figures, one experiment a file."""
