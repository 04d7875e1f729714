"""What a user does with a fit: tests, contrasts, predictions, updates, files and views."""
