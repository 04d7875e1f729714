"""Results of rows that were fitted apart, combined to one."""
