"""Mixtures to calibrate by: clusters of items, and their likelihoods.

What is simulated here is written out from the models' definitions: none of it is the library's.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.stats import norm

from sgmc_jax import bnp

SLOTS = 64  # more than any chain has


class Likelihood(NamedTuple):
    """A law of items given theta, and one of theta.

    `read` makes of the parameters that the family draws the rows of theta, as `draw` makes one.
    """

    family: Callable[[], Any]
    draw: Callable[[Any], Any]
    item: Callable[[Any, Any], Any]
    log_density: Callable[[Any, Any], Any]
    read: Callable[[Any], Any]


def normal(spread=1.0):
    """x ~ N(mu, 1/2), mu ~ N(0.3, 3/2); the data are simulated with so many times the noise."""
    scale = 0.5**0.5
    return Likelihood(
        lambda: bnp.NormalKnownCovariance(0.3, 0.5, 1.5),
        lambda key: 0.3 + 1.5**0.5 * jax.random.normal(key, (1,)),
        lambda key, mu: mu + spread * scale * jax.random.normal(key, (1,)),
        lambda mu, x: jnp.sum(norm.logpdf(x, mu, scale)),
        lambda params: params.mean,
    )


def normal_gamma():
    """x_d ~ N(mu_d, 1 / t_d), mu_d ~ N(-0.2, 1 / (0.4 t_d)), t_d ~ Gamma(3, 2)."""

    def draw(key):
        precision_key, mean_key = jax.random.split(key)
        t = jax.random.gamma(precision_key, 3.0, (2,)) / 2
        return jnp.stack([-0.2 + jax.random.normal(mean_key, (2,)) / jnp.sqrt(0.4 * t), t])

    return Likelihood(
        lambda: bnp.NormalGamma(2, -0.2, 0.4, 3.0, 2.0),
        draw,
        lambda key, theta: theta[0] + jax.random.normal(key, (2,)) / jnp.sqrt(theta[1]),
        lambda theta, x: jnp.sum(norm.logpdf(x, theta[0], 1 / jnp.sqrt(theta[1]))),
        lambda params: jnp.stack([params.mean, jnp.exp(params.log_precision)], axis=1),
    )


def normal_inverse_wishart():
    """x ~ N(mu, S), mu ~ N(0.1, S / 0.5), S^-1 the sum of g g' of 5 normals g of covariance I / 2.

    theta is mu and the matrix S, in three rows.
    """

    def draw(key):
        scatter_key, mean_key = jax.random.split(key)
        g = jax.random.normal(scatter_key, (5, 2)) / jnp.sqrt(2.0)
        covariance = jnp.linalg.inv(g.T @ g)
        mean = 0.1 + jnp.linalg.cholesky(covariance / 0.5) @ jax.random.normal(mean_key, (2,))
        return jnp.concatenate([mean[None], covariance])

    def item(key, theta):
        return theta[0] + jnp.linalg.cholesky(theta[1:]) @ jax.random.normal(key, (2,))

    return Likelihood(
        lambda: bnp.NormalInverseWishart(2, 0.1, 0.5, 5.0, 2.0),
        draw,
        item,
        lambda theta, x: jax.scipy.stats.multivariate_normal.logpdf(x, theta[0], theta[1:]),
        lambda params: jnp.concatenate([params.mean[:, None], params.covariance], axis=1),
    )


def poisson():
    """x ~ Poisson(l), l ~ Gamma(1.5, 0.5)."""
    return Likelihood(
        lambda: bnp.PoissonGamma(1.5, 0.5),
        lambda key: jax.random.gamma(key, 1.5, (1,)) / 0.5,
        lambda key, l: jax.random.poisson(key, l).astype(jnp.float32),
        lambda l, x: jnp.sum(x * jnp.log(l) - l),
        lambda params: jnp.exp(params.log_mean),
    )


def words():
    """x ~ Categorical(p), p ~ Dirichlet(0.5, 0.5, 0.5); theta is log p."""
    return Likelihood(
        lambda: bnp.DirichletCategorical(0.5, size=3),
        lambda key: jnp.log(jax.random.dirichlet(key, jnp.full(3, 0.5))),
        lambda key, log_p: jax.random.categorical(key, log_p),
        lambda log_p, x: log_p[x],
        lambda params: params.log_probability,
    )


def bags():
    """x ~ Multinomial(5, p), p ~ Dirichlet(0.5, 0.4, 0.3); theta is log p."""
    prior = (0.5, 0.4, 0.3)

    def item(key, log_p):
        drawn = jax.random.categorical(key, log_p, shape=(5,))
        return jnp.sum(jax.nn.one_hot(drawn, 3), axis=0)

    return Likelihood(
        lambda: bnp.DirichletMultinomial(jnp.array(prior)),
        lambda key: jnp.log(jax.random.dirichlet(key, jnp.array(prior))),
        item,
        lambda log_p, x: jnp.sum(jnp.where(x > 0, x * log_p, 0.0)),
        lambda params: params.log_probability,
    )


class Clusters(NamedTuple):
    """Hyper-parameters that are random, each item's label, theta by label, and what else."""

    hyper: dict[str, Any]
    labels: Any
    theta: Any
    more: dict[str, Any] = {}


def number(key, law):
    """A fixed number, or a draw of Gamma(shape, rate)."""
    if not isinstance(law, tuple):
        return jnp.asarray(law)
    return jax.random.gamma(key, law[0]) / law[1]


def given(law):
    """The same as the library has it: a first value, and the prior or `None`."""
    return (1.0, law) if isinstance(law, tuple) else (law, None)


def summary(world, items, log_density, present):
    """The test quantities of all clusterings, of the items that are `present`; item 0 always is."""
    labels, theta = world.labels, world.theta
    together = (labels[:, None] == labels) & present[:, None] & present
    log_likelihood = jax.vmap(lambda z, x: log_density(theta[z], x))(labels, items)
    births = 1 / jnp.maximum(jnp.sum(together, axis=1), 1)
    return {
        "clusters": jnp.sum(jnp.where(present, births, 0.0)).round(),
        "pairs": jnp.sum(together),
        "first": jnp.sum(together[0]),
        "theta": theta[labels[0]].ravel()[0],
        "log likelihood": jnp.sum(jnp.where(present, log_likelihood, 0.0)),
        **world.hyper,
        **world.more,
    }


def draw_theta(key, likelihood, items, labels):
    """theta of every slot given its items, by the library's family."""
    family = likelihood.family()
    statistics = family.label_statistics(items, labels, SLOTS)
    return likelihood.read(family.draw(key, statistics))


class Mixture(NamedTuple):
    """A Pitman-Yor mixture: item i joins cluster k ~ m_k - d, and a new one ~ a + K d.

    `concentration` is a number, or the shape and rate of its gamma prior, `discount` then 0, or
    `None` for the uniform law.
    """

    likelihood: Likelihood
    concentration: Any = (2.0, 2.0)
    discount: Any = 0.0
    num_items: int = 6

    def process(self):
        """The library's process of this law."""
        a, prior = given(self.concentration)
        if self.discount == 0:
            return bnp.DirichletProcess(a, prior)
        return bnp.PitmanYor(a, 0.5 if self.discount is None else self.discount, prior)

    def draw(self, key):
        a_key, d_key, label_key, theta_key, item_key = jax.random.split(key, 5)
        a = number(a_key, self.concentration)
        d = jax.random.uniform(d_key) if self.discount is None else jnp.asarray(self.discount)

        def seat(sizes, key):
            new = jnp.argmin(sizes > 0)
            weights = jnp.where(sizes > 0, sizes - d, 0.0).at[new].set(a + d * new)
            label = jax.random.categorical(key, jnp.log(weights))
            return sizes.at[label].add(1), label

        num = self.num_items
        _, labels = jax.lax.scan(seat, jnp.zeros(num + 1), jax.random.split(label_key, num))
        theta = jax.vmap(self.likelihood.draw)(jax.random.split(theta_key, num))
        items = jax.vmap(self.likelihood.item)(jax.random.split(item_key, num), theta[labels])
        return Clusters(self._random({"concentration": a, "discount": d}), labels, theta), items

    def read(self, key, position, data):
        labels = position.local["assignment"]
        theta = draw_theta(key, self.likelihood, data, labels)
        return Clusters(self._random(position.shared), labels, theta)

    def quantities(self, world, data):
        present = jnp.ones(self.num_items, bool)
        return summary(world, data, self.likelihood.log_density, present)

    def _random(self, hyper):
        some = {"concentration": isinstance(self.concentration, tuple)}
        some["discount"] = self.discount is None
        return {name: hyper[name] for name, is_random in some.items() if is_random}
