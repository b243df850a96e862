"""SCIR against SGRLD on sparse and dense Dirichlet posteriors: figures 1 and 2 of its paper."""
