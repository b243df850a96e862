"""Models with samplers of their own."""

from .lda import LDA as LDA
