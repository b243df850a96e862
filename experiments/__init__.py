"""Experiments: each folder runs by `python -m experiments.NAME`."""
