"""A result as text, as HTML and LaTeX, and as a picture."""
