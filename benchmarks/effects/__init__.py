"""The smallest effects that the checks claim to see, put into simulated healthy runs: one small function each."""
