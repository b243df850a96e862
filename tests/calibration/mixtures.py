"""Mixtures to calibrate by: clusters of items, in one group or in several, and their likelihoods.

What is simulated here is written out from the models' definitions: none of it is the library's.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.stats import norm

from sgmc_jax import bnp

SLOTS = 64
STICKS = 128  # weigh all but (a / (1 + a))^128


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
    """theta of the first slots given the items of each; no chain here has as many."""
    family = likelihood.family()
    statistics = family.label_statistics(items, labels, SLOTS)
    return likelihood.read(family.draw(key, statistics))


def flat(groups):
    """Items of all groups in a row, and which of them there are."""
    items, size = groups
    present = jnp.arange(items.shape[1]) < size[:, None]
    return items.reshape(-1, *items.shape[2:]), present.ravel()


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


class Franchise(NamedTuple):
    """A hierarchical Dirichlet process mixture of groups of these sizes.

    With w ~ GEM(a), an item of group s joins cluster k with probability ~ n_sk + g w_k, where n_sk
    items of its group that came before are in it.
    """

    likelihood: Likelihood
    concentration: Any = (2.0, 2.0)
    group_concentration: Any = (2.0, 2.0)
    sizes: tuple[int, ...] = (3, 1, 2)

    def process(self):
        """The library's process of this law."""
        (a, top), (g, group) = given(self.concentration), given(self.group_concentration)
        return bnp.HierarchicalDirichletProcess(a, g, top, group)

    def draw(self, key):
        a_key, g_key, stick_key, label_key, theta_key, item_key = jax.random.split(key, 6)
        a, g = number(a_key, self.concentration), number(g_key, self.group_concentration)
        sticks = jax.random.beta(stick_key, 1.0, a, (STICKS,)).at[-1].set(1.0)
        left = jnp.append(1.0, jnp.cumprod(1 - sticks)[:-1])
        weights = sticks * left
        size, width = jnp.array(self.sizes), max(self.sizes)
        num = len(self.sizes) * width

        def seat(counts, now):
            key, i = now
            group, real = i // width, i % width < size[i // width]
            label = jax.random.categorical(key, jnp.log(counts[group] + g * weights))
            return counts.at[group, label].add(real), label

        counts = jnp.zeros((len(self.sizes), STICKS))
        now = jax.random.split(label_key, num), jnp.arange(num)
        _, labels = jax.lax.scan(seat, counts, now)
        theta = jax.vmap(self.likelihood.draw)(jax.random.split(theta_key, STICKS))
        items = jax.vmap(self.likelihood.item)(jax.random.split(item_key, num), theta[labels])
        items = items.reshape(len(self.sizes), width, *items.shape[1:])
        hyper = {"concentration": a, "group_concentration": g}
        more = {"weight": weights[labels[0]]}
        return Clusters(self._random(hyper), labels, theta, more), bnp.Groups(items, size)

    def read(self, key, position, data):
        items, present = flat(data)
        labels = position.local["assignment"].ravel()
        theta = draw_theta(key, self.likelihood, items, jnp.where(present, labels, -1))
        more = {"weight": position.shared["weights"][labels[0]]}
        return Clusters(self._random(position.shared), labels, theta, more)

    def quantities(self, world, data):
        items, present = flat(data)
        return summary(world, items, self.likelihood.log_density, present)

    def _random(self, hyper):
        own = self._asdict()
        return {name: hyper[name] for name in hyper if isinstance(own.get(name), tuple)}


class Failures(NamedTuple):
    """A beta-negative-binomial clustering of two groups.

        s_k = a V_k e^(-G_k / (a c)),   V_k ~ Beta(1, c - 1),   G_k the points of a Poisson process
        theta_dk ~ Beta(c s_k, c (1 - s_k)),   pi_dk ~ Gamma(r, rate (1 - theta_dk) / theta_dk)
        Poisson(pi_dk) items of group d in cluster k

    The sizes of the groups are data. Worlds are drawn until both are between 1 and `most`, which is
    an event of the data alone: it leaves the law of the world given them as it is.
    """

    likelihood: Likelihood
    mass: float = 0.9
    concentration: float = 2.5
    failures: int = 2
    most: int = 6
    tries: int = 16
    atoms: int = 24  # all others together have 2e-5 of the mass

    def process(self):
        """The library's process of this law."""
        return bnp.BetaProcess(self.mass, self.concentration)

    def draw(self, key):
        try_key, label_key, theta_key, item_key = jax.random.split(key, 4)
        tried = jax.vmap(self._rates)(jax.random.split(try_key, self.tries))
        good = jnp.all((tried[2] >= 1) & (tried[2] <= self.most), axis=1)
        s, rates, size = jax.tree.map(lambda x: x[jnp.argmax(good)], tried)
        logits = jnp.repeat(jnp.log(rates), self.most, axis=0)
        labels = jax.random.categorical(label_key, logits)
        theta = jax.vmap(self.likelihood.draw)(jax.random.split(theta_key, self.atoms))
        keys = jax.random.split(item_key, len(labels))
        items = jax.vmap(self.likelihood.item)(keys, theta[labels])
        items = items.reshape(2, self.most, *items.shape[1:])
        weight = jnp.where(jnp.any(good), s[labels[0]], jnp.nan)
        return Clusters({}, labels, theta, {"weight": weight}), bnp.Groups(items, size)

    def _rates(self, key):
        """s, pi and the sizes of both groups: theta / (1 - theta) is a ratio of gammas."""
        keys = jax.random.split(key, 5)
        a, c = self.mass, self.concentration
        places = jnp.cumsum(jax.random.exponential(keys[0], (self.atoms,)))
        v = 1 - jax.random.uniform(keys[1], places.shape) ** (1 / (c - 1))
        s = a * v * jnp.exp(-places / (a * c))
        gammas = jax.random.loggamma(keys[2], c * jnp.stack([s, 1 - s]), (2, 2, self.atoms))
        waits = jnp.sum(jax.random.exponential(keys[3], (self.failures, 2, self.atoms)), axis=0)
        rates = waits * jnp.exp(gammas[:, 0] - gammas[:, 1])
        return s, rates, jax.random.poisson(keys[4], jnp.sum(rates, axis=1))

    def read(self, key, position, data):
        items, present = flat(data)
        labels, series = position.local["assignment"].ravel(), position.shared["series"]
        theta = draw_theta(key, self.likelihood, items, jnp.where(present, labels, -1))
        s = self.mass * series["v"] * jnp.exp(-series["g"] / (self.mass * self.concentration))
        return Clusters({}, labels, theta, {"weight": s[labels[0]]})

    def quantities(self, world, data):
        items, present = flat(data)
        return summary(world, items, self.likelihood.log_density, present)
