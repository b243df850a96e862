"""Grouped items to calibrate by: clusters that groups share.

What is simulated here is written out from the models' definitions: none of it is the library's.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from sgmc_jax import bnp
from tests.calibration.mixtures import Clusters, Likelihood, draw_theta, given, number, summary

STICKS = 128  # weigh all but (a / (1 + a))^128


def flat(groups):
    """Items of all groups in a row, and which of them there are."""
    items, size = groups
    present = jnp.arange(items.shape[1]) < size[:, None]
    return items.reshape(-1, *items.shape[2:]), present.ravel()


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
    mass: float = 0.5
    concentration: float = 4.0
    failures: int = 7
    most: int = 7
    tries: int = 24  # of which one in three is such a world
    atoms: int = 24  # all others together have 6e-6 of the mass

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
