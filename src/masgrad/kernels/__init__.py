"""One update, theta' = prox(theta - eta A(theta) g), with a slot for each of its parts."""
