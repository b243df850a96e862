"""Latent features to calibrate by: buffets whose customers are rows that add up from features.

What is simulated here is written out from the models' definitions: none of it is the library's.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.stats import bernoulli, norm, poisson

from sgmc_jax import bnp
from tests.calibration.mixtures import given, number

COLUMNS = 64  # more features than a world has; one that had as many would have a likelihood of NaN
LARGEST = 40  # of an entry of a new column; larger ones have a probability below 1e-30
INTERCEPT = -0.5  # of log odds
BACKGROUND, SHAPE, RATE = 0.4, 2.0, 1.0  # of a count's mean, and of the gamma law of theta


class Entries(NamedTuple):
    """Hyper-parameters that are random, all scales, entries (n, K), and theta (K, D)."""

    hyper: dict[str, Any]
    scales: dict[str, Any]
    features: Any
    theta: Any


class Buffet(NamedTuple):
    """x_i = sum_k z_ik theta_k + s e_i, with entries of a beta-Bernoulli or gamma-Poisson process.

    Customer i + 1 has a dish that m have had, or so often if they are counted, with the law

        z ~ Bernoulli(m / (c + i)),                  and Poisson(a c / (c + i)) new dishes, or
        z ~ Poisson(mu), mu ~ Gamma(m, c + i),       and Poisson(a c log(1 + 1 / (c + i))),

    each of these so often as P(z) ~ p^z / z says, p = 1 / (c + i + 1). Mass and concentration are
    numbers, or the shapes and rates of gamma priors; s^2 and the variance of theta numbers, or the
    shapes and scales of inverse-gamma ones.

    Items may be answers, with log odds b + sum_k z_ik theta_k, or counts, with means of that form
    and theta of a gamma law, in place of normal.
    """

    mass: Any = (4.0, 8.0)
    concentration: Any = 1.0
    noise: Any = 0.36
    scale: Any = 1.21
    counted: bool = False
    items: str = "normal"
    spread: float = 1.0  # the data are simulated with so many times the noise
    num_items: int = 4
    dim: int = 2

    def process(self):
        """The library's process of this law."""
        (a, prior), (c, concentration_prior) = given(self.mass), given(self.concentration)
        kind = bnp.GammaPoisson if self.counted else bnp.BetaBernoulli
        return kind(a, c, prior, concentration_prior)

    def family(self):
        """The library's likelihood of such items; of normal ones theta is integrated out."""
        steps = {"step_size": 0.5, "num_steps": 3}
        if self.items == "answers":
            return bnp.LinearLogistic(self.dim, self.scale**0.5, INTERCEPT, **steps)
        if self.items == "counts":
            return bnp.LinearPoisson(self.dim, SHAPE, RATE, BACKGROUND, **steps)
        (noise, noise_prior), (scale, scale_prior) = given(self.noise), given(self.scale)
        return bnp.LinearGaussian(self.dim, noise**0.5, scale**0.5, noise_prior, scale_prior)

    def explicit(self):
        """That of normal items as a user would write it, with theta in the chain."""
        return bnp.FeatureLikelihood(
            lambda theta, z, x: -0.5 * jnp.sum((x - z @ theta) ** 2) / self.noise,
            lambda theta: -0.5 * jnp.sum(theta**2) / self.scale,
            lambda key: self.scale**0.5 * jax.random.normal(key, (self.dim,)),
            step_size=0.5,
            num_steps=3,
        )

    def draw(self, key):
        a_key, c_key, s_key, z_key, theta_key, x_key = jax.random.split(key, 6)
        a, c = number(a_key, self.mass), number(c_key, self.concentration)
        noise, scale = (
            1 / number(k, law) if isinstance(law, tuple) else jnp.asarray(law)
            for k, law in zip(jax.random.split(s_key), (self.noise, self.scale))
        )
        z = self._entries(z_key, a, c)
        theta = jnp.sqrt(scale) * jax.random.normal(theta_key, (COLUMNS, self.dim))
        if self.items == "counts":
            theta = jax.random.gamma(theta_key, SHAPE, theta.shape) / RATE
        theta = jnp.where(jnp.sum(z[:, -1]) > 0, jnp.nan, theta)
        if self.items == "normal":
            error = jax.random.normal(x_key, (self.num_items, self.dim))
            x = z @ theta + self.spread * jnp.sqrt(noise) * error
        elif self.items == "answers":
            x = jax.random.bernoulli(x_key, jax.nn.sigmoid(INTERCEPT + z @ theta))
        else:
            x = jax.random.poisson(x_key, BACKGROUND + z @ theta)
        hyper = {"mass": a, "concentration": c}
        hyper |= {"noise_scale": jnp.sqrt(noise), "feature_scale": jnp.sqrt(scale)}
        return self._world(hyper, z, theta), x

    def _entries(self, key, a, c):
        """The buffet, in whole numbers."""

        def customer(counts, now):
            key, i = now
            old_key, mu_key, num_key, new_key = jax.random.split(key, 4)
            had = counts > 0
            if self.counted:
                mu = jax.random.gamma(mu_key, jnp.maximum(counts, 1)) / (c + i)
                again, rate = jax.random.poisson(old_key, mu), a * c * jnp.log1p(1 / (c + i))
                sizes = 1 + jnp.arange(LARGEST)
                log_law = -sizes * jnp.log(c + i + 1) - jnp.log(sizes)
                fresh = 1 + jax.random.categorical(new_key, log_law, shape=counts.shape)
            else:
                again = jax.random.uniform(old_key, counts.shape) < counts / (c + i)
                rate, fresh = a * c / (c + i), 1
            place = jnp.arange(COLUMNS) - jnp.sum(had)
            new = (place >= 0) & (place < jax.random.poisson(num_key, rate))
            z = jnp.where(had, again, jnp.where(new, fresh, 0))
            return counts + z, z

        now = jax.random.split(key, self.num_items), jnp.arange(self.num_items)
        return jax.lax.scan(customer, jnp.zeros(COLUMNS, jnp.int32), now)[1]

    def read(self, key, position, data):
        shared, z = position.shared, position.local["features"]
        theta = shared["parameters"]
        theta = jnp.exp(theta) if self.items == "counts" else theta
        return self._world(shared, z.astype(jnp.int32), theta)

    def _world(self, hyper, z, theta):
        laws = {"mass": self.mass, "concentration": self.concentration}
        laws |= {"noise_scale": self.noise, "feature_scale": self.scale}
        random = {name: hyper[name] for name, law in laws.items() if isinstance(law, tuple)}
        noise = random.get("noise_scale", jnp.sqrt(given(self.noise)[0]))
        return Entries(random, {"noise": noise}, z, theta)

    def quantities(self, world, data):
        z, theta = world.features, world.theta
        active = jnp.any(z > 0, axis=0)
        fit = z @ theta
        return {
            "features": jnp.sum(active),
            "entries": jnp.sum(z),
            "shared": jnp.sum(z[0] * z[1]),
            "fit": fit[0, 0],
            "theta": jnp.sum(jnp.where(active[:, None], theta, 0.0) ** 2),
            "log likelihood": jnp.sum(self._log_density(data, fit, world.scales["noise"])),
            **world.hyper,
        }

    def _log_density(self, data, fit, noise):
        if self.items == "answers":
            return bernoulli.logpmf(data.astype(int), jax.nn.sigmoid(INTERCEPT + fit))
        if self.items == "counts":
            return poisson.logpmf(data.astype(int), BACKGROUND + fit)
        return norm.logpdf(data, fit, noise)
