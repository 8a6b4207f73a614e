"""The audits that come before debugging: is the task learnable, is it scored right, does it replay, has it leaked."""
