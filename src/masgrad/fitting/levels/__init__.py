"""A category of very many levels, eliminated from the dense part of H and M."""
