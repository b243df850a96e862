"""Geodesic Monte Carlo and its stochastic gradient versions: tables and pictures."""
