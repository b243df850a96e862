"""What the samplers cost: ratios to hand-written floors and to blackjax, in one process."""
