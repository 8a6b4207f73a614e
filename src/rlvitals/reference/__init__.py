"""Reference pages about checks, metrics, keys and settings: one content, shown in the terminal and in the docs."""
