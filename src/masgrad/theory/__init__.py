"""Numbers from the theorems, and the distances they are about."""
