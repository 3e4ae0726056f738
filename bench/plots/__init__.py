"""Plots of what was measured: `python -m bench.plots` draws docs/img/*.svg from bench/results."""
