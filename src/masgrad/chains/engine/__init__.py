"""Where groups of chains advance: in threads of this process, or on the workers of a cluster."""
