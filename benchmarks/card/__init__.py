"""The trainer on one graphics card: the pieces of benchmarks/gpu.py, each of which runs on a CPU in a small shape."""
