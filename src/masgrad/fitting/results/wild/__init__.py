"""The wild cluster bootstrap with the null imposed: draws, statistics, tests and intervals."""
