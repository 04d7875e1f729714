"""A chain, its diffusion and the process in continuous time: bounds, distances, laws."""
