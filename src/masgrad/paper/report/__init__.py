"""What `masgrad paper` prints and writes."""
