"""Parts of the rows that are read one by one, by whichever worker is free."""
