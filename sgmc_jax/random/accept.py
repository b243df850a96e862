"""The test of Metropolis and Hastings."""

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float

from .. import _checks


def accept(key: jax.Array, log_ratio: ArrayLike) -> Bool[Array, "..."]:
    """True with probability min(1, exp(log_ratio)), for each entry; never where that is NaN.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> accept(jax.random.key(0), jnp.array([jnp.inf, -jnp.inf, jnp.nan])).tolist()
        [True, False, False]
    """
    _checks.random_key(key)
    log_ratio = _checks.as_real(log_ratio, "log_ratio")
    # of half precision a uniform number has too few values for ratios that are small
    log_ratio = log_ratio.astype(jnp.promote_types(log_ratio.dtype, jnp.float32))
    uniform = jax.random.uniform(key, log_ratio.shape, log_ratio.dtype)
    # at times it is 0, which would accept anything: it stands for what lies below its first digit
    return passes(jnp.maximum(uniform, jnp.finfo(log_ratio.dtype).eps / 4), log_ratio)


def passes(uniform: Float[Array, "*n"], log_ratio: Float[Array, "*n"]) -> Bool[Array, "*n"]:
    """The test itself, by numbers in (0, 1] drawn elsewhere: by slot or by item."""
    return jnp.log(uniform) < log_ratio
