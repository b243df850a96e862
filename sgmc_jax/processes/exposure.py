"""How many atoms items are expected to have, of any measure and under any counts."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from .measures import ALL_MEASURES, RateMeasure

_NODES = 256
_FAR = 20.0  # e^-20 is nothing beside 1


def exposure(measure: RateMeasure, counts: Any, num_items: Any) -> Float[Array, ""]:
    """E = int (1 - h(0 | theta)^n) nu(d theta), the expected number of atoms that n items have.

    By the trapezoid rule in s, which is log theta, or its log odds where weights are below 1. The
    integrand is analytic for |Im s| < pi / 2, so that with nodes on all of the line the rule has a
    relative error of e^(-pi^2 / step), and a step is some 0.2. Nodes reach from where n theta, or
    -n log h(0 | theta), is small to where atoms are rare. Before them the integrand is proportional
    to e^((1 - d) s), with the discount d, and after them to e^(-(c + d) s) if it is not 0: two
    geometric series.

    Args:
        measure: nu, of any kind whose density falls like a power at both ends, or faster above.
        counts: h, a `CountLikelihood` or anything that has its `log_absent`.
        num_items: n.

    Example:
        >>> from sgmc_jax.processes import Bernoulli, BetaProcess
        >>> round(float(exposure(BetaProcess(2.0), Bernoulli(), 3)), 4)  # 2 (1 + 1/2 + 1/3)
        3.6667

    Reference:
        Trefethen and Weideman (2014), The exponentially convergent trapezoidal rule.
    """
    c = measure.concentration
    low = -_FAR - jnp.log(num_items * jnp.maximum(c, 1))
    # counts of a large mean are seldom 0 but at far smaller weights
    mean = -counts.log_absent(measure.log_weight(low)) / jnp.exp(low)
    low = low - jnp.log(jnp.where(mean > 1, mean, 1))
    high = _FAR - jnp.log(jnp.minimum(c, 1))
    step = (high - low) / (_NODES - 1)
    s = low + step * jnp.arange(_NODES)
    absent = num_items * counts.log_absent(measure.log_weight(s))
    density = jnp.exp(measure.log_density(s))
    each = -jnp.expm1(absent) * density
    # powers of the library's own are known; of another, the ratios of the outermost nodes tell
    if isinstance(measure, ALL_MEASURES):
        d = measure.discount
        rises, falls = jnp.expm1((1 - d) * step), jnp.expm1((c + d) * step)
        # h(0)^n may fall like a power too, as slowly as it likes: the difference of two series
        more = jnp.exp((c + d) * step) * jnp.expm1(absent[-2] - absent[-1])
        gone = jnp.where(jnp.isfinite(more), more / (falls + more), 1)
        last = density[-1] * (jnp.exp(absent[-1]) * gone - jnp.expm1(absent[-1]))
    else:
        last = each[-1]
        rises, falls = each[1] / each[0] - 1, each[-2] / jnp.where(last > 0, last, 1) - 1
    after = jnp.where(last > 0, last / falls, 0)
    return step * (each[0] / rises + jnp.sum(each) + after)
