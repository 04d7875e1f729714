"""Design matrices that are not written out: categories as codes, sparse rows."""
