"""Steps, batches and rows that the theorems ask for, and a survey of what they need."""
