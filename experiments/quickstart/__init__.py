"""Posteriors of real data by six samplers, against an exact reference: `make demo`."""
