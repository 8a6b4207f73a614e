"""The fault lab: every failure made for real on the embedded tasks, and every check measured on it."""
