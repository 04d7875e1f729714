"""Tables of named columns: files, datasets, data frames in memory, iterators of data frames."""
