"""Many chains of one kernel, advanced together, and what they left behind."""
