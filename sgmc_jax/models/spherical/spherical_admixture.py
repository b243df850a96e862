"""The spherical admixture model."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ... import _checks
from ..._types import Kernel
from ...batching import Batcher, Full
from ...batching.uniform import require_batcher
from ...combinators import gibbs
from ...directional import check_directions
from ...gradients import LatentMinibatch, LatentTable, Minibatch
from ...gradients.kept import KeptLatents
from . import evaluation
from .blocks import ProportionBlock, TopicBlock
from .density import GivenProportions, Marginal
from .directions import Directions
from .documents import UnitVectors, check_vectors
from .proportions import Proportions
from .variational import Bound, DirichletParameters, Variational


class SphericalAdmixture(Directions):
    """The spherical admixture model: documents are directions, each near a mixture of K topics.

        mu ~ vMF(m, kappa0),   beta_k ~ vMF(mu, sigma),   theta_d ~ Dirichlet(alpha),
        v_d ~ vMF(sum_k theta_dk beta_k / |sum_k theta_dk beta_k|, kappa)

    on the unit sphere of R^V. A topic may have negative entries: words whose absence tells of it.
    The corpus mean mu is integrated out, and the position of every sampler is the topics, an array
    (K, V) of unit rows. With h a step size and L a number of leapfrog steps,

        sggmc(sam.topics(Uniform(50)), Sphere(), h)     minibatches
        gsgnht(sam.topics(Uniform(50)), Sphere(), h)    minibatches, and a friction that adapts
        gmc(sam.marginal(key), Sphere(), h, L)          all documents, of a law near the posterior
        sam.block_gibbs(h, L)                           all documents, exact
        sam.variational(Full())                         no sampler: a point, and what is near it

    Args:
        num_topics: K.
        vocabulary: V >= 2, the number of words.
        alpha: the parameter of the proportions' symmetric Dirichlet prior, positive. Below 1/2
            chains of proportions are slow at the simplex's faces, as a warning says.
        concentration: kappa > 0, of documents about their mixture of topics. The cosine of the two
            is then about A_V(kappa), `special.bessel_ratio(V / 2 - 1, kappa)`: it takes a kappa of
            the order of V.
        topic_concentration: sigma > 0, of topics about the corpus mean.
        prior_concentration: kappa0 >= 0, of the corpus mean about m.
        mean_direction: m, of shape (V,), a unit vector; by default all entries are equal.

    Raises:
        ValueError: if a number is out of its range; at `sample`'s door, if the data are not
            documents.

    Example:
        >>> import jax, numpy as np
        >>> from sgmc_jax import Sphere, Uniform, gsgnht, sample
        >>> sam = SphericalAdmixture(2, 5, alpha=1.0, concentration=20.0, topic_concentration=1.0)
        >>> documents = sam.documents(np.random.default_rng(0).poisson(1.0, (20, 5)))
        >>> kernel = gsgnht(sam.topics(Uniform(4)), Sphere(), step_size=0.01)
        >>> run = sample(jax.random.key(0), kernel, sam.start, documents, num_steps=10)
        >>> run.trace.shape
        (10, 2, 5)

    Reference:
        Reisinger, Waters, Silverthorn and Mooney (2010), Spherical topic models; Liu, Zhu and Song
        (2016), Stochastic gradient geodesic MCMC methods, section 4, for the samplers.
    """

    def proportions(
        self,
        *,
        step_size: Any = None,
        num_steps: int = 5,
        draws: int = 1,
        burn_in: int = 20,
    ) -> Proportions:
        """How documents' proportions are drawn: trajectories of geodesic Monte Carlo each.

        Args:
            step_size: of a trajectory; by default 1 / (2 sqrt(kappa + K alpha)), at which two of
                three are accepted on text.
            num_steps: at least 1: the leapfrog steps of a trajectory.
            draws: at least 1: how many trajectories' ends are kept, to be averaged over.
            burn_in: at least 0: how many before them are not, of a chain that is begun at equal
                proportions.
        """
        prior = self.prior
        if step_size is None:
            step_size = 0.5 / jnp.sqrt(prior.concentration + prior.num_topics * prior.alpha)
        return Proportions(prior, step_size, num_steps, draws, burn_in)

    def topics(
        self,
        batcher: Batcher,
        *,
        proportions: Proportions | None = None,
        fresh: bool = False,
    ) -> LatentTable | LatentMinibatch:
        """The estimator of the gradient of the topics' log posterior, in R^(K V).

            sigma A(|r|) r / |r| + kappa sum_d w_d mean theta_k (v_d - (v_d'u) u) / |beta theta|

        with r = kappa0 m + sigma sum_k beta_k, u = beta theta / |beta theta|, and the mean over
        draws of p(theta_d | v_d, beta).

        Args:
            batcher: which documents a step sees.
            proportions: how theta is drawn; by default `proportions()`.
            fresh: by default a document's chain goes on from where it was when the document was
                last seen, from a table of all; `True` begins it anew each time, for streams.
        """
        latent = self.proportions() if proportions is None else proportions
        estimator = LatentMinibatch if fresh else LatentTable
        return estimator(GivenProportions(self.prior), latent, batcher)

    def marginal(self, key: Any, *, draws: int = 1_000) -> Minibatch:
        """The exact gradient of a law near the posterior, for `gmc` (GMC-apprMH).

            log p(v_d | beta) ~ log mean_n exp(kappa v_d'beta theta_n / |beta theta_n|),

        with draws theta_n of the Dirichlet prior that stay the same: `gmc` samples the topics' law
        under that approximation exactly.

        Reference:
            Liu, Zhu and Song (2016), section 5.3, who draw theta anew for every test, which then
            is no exact test of any law.
        """
        _checks.random_key(key)
        _checks.whole("draws", draws)
        alpha = jnp.broadcast_to(self.prior.alpha, (self.prior.num_topics,))
        theta = jax.random.dirichlet(key, alpha, (draws,))
        return Minibatch(Marginal(self.prior, theta), Full())

    def block_gibbs(
        self,
        step_size: Any,
        num_integration_steps: int = 10,
        *,
        proportions: Proportions | None = None,
    ) -> Kernel:
        """The kernel of proportions given topics and topics given proportions (GMC-bGibbs).

        Targets the posterior of both exactly; all documents each step. The position is a dict of
        `proportions`, (D, K), and `topics`, (K, V).

        Args:
            step_size: h > 0, of the topics' trajectories.
            num_integration_steps: their leapfrog steps.
            proportions: how proportions move; by default `proportions()`.
        """
        latent = self.proportions() if proportions is None else proportions
        _checks.positive("step_size", step_size)
        _checks.whole("num_integration_steps", num_integration_steps)
        topics = TopicBlock(self.prior, step_size, num_integration_steps)
        return gibbs(proportions=ProportionBlock(latent), topics=topics)

    def variational(
        self, batcher: Batcher, step_size: Any = 0.2, *, ascent_steps: int = 20
    ) -> Kernel:
        """Mean-field variational inference, as a kernel whose position are the topics' directions.

            q = vMF(mu) prod_k vMF(beta_k | direction_k, s_k) prod_d Dir(theta_d | a_d)

        A step ascends over the a_d of a batch, then moves the natural parameter of each topic's
        law, s_k direction_k, towards the gradient of the bound in E beta_k, where it is best if all
        else is given:

            s_k direction_k <- (1 - rho) s_k direction_k + rho grad_k.

        `info.bound` estimates the bound, by the delta method: it is none in the strict sense.

        Args:
            batcher: `Full()`, or which documents a step sees (stochastic variational inference).
            step_size: rho in (0, 1], or a function of the step index; near 1 the bound may fall.
                Minibatches want one that decays, such as `PolynomialDecay(1.0, 1.0, 0.6)`.
            ascent_steps: of a document's a_d, from what they were.

        Reference:
            Reisinger et al. (2010), section 3; Hoffman, Blei, Wang and Paisley (2013), Stochastic
            variational inference. The paper ascends along gradients and normalises; the natural
            parameter is moved here, whose fixed points are the same.
        """
        require_batcher(batcher)
        _checks.positive("step_size", step_size)
        if not callable(step_size) and _checks.certainly(lambda rho: rho > 1, step_size):
            raise ValueError(f"step_size must be at most 1, got {_checks.shown(step_size)}")
        _checks.whole("ascent_steps", ascent_steps)
        latent = DirichletParameters(self.prior, ascent_steps)
        kept = KeptLatents(latent, batcher, "Variational")
        return Variational(Bound(self.prior), kept, _checks.as_schedule("step_size", step_size))

    def log_perplexity(
        self,
        key: Any,
        topics: Float[Array | np.ndarray, "... k v"],
        documents: UnitVectors,
        *,
        draws: int = 1_000,
    ) -> float:
        """Minus the mean log density of held-out documents, averaged over drawn topics.

            -mean_d log mean_m mean_n vMF(v_d | beta_m theta_n / |beta_m theta_n|, kappa),

        with theta_n from the Dirichlet prior, the same for all documents and draws: of one key,
        methods are compared by the same. It is too high on average, by less with more draws.

        Args:
            topics: positions of a sampler, draws on the leading axes.
            documents: held-out ones; those without words are left out.
            draws: of theta.
        """
        _checks.random_key(key)
        topics = self._flat(topics, documents)
        _checks.whole("draws", draws)
        if not np.any(np.asarray(documents.values) != 0):
            raise ValueError("documents must have some with words")
        return float(evaluation.log_perplexity(self.prior, key, topics, documents, int(draws)))

    def transform(
        self,
        key: Any,
        topics: Float[Array | np.ndarray, "... k v"],
        documents: UnitVectors,
        *,
        proportions: Proportions | None = None,
    ) -> Float[Array, "n k"]:
        """The proportions of new documents: their posterior mean, averaged over drawn topics.

        Args:
            topics: positions of a sampler, draws on the leading axes: of one chain, as topics of
                others have names of their own.
            documents: one without words has the prior's mean, but for the draws' own error.
            proportions: the chain of each document; by default `proportions(draws=50)`.
        """
        _checks.random_key(key)
        latent = self.proportions(draws=50) if proportions is None else proportions
        topics = self._flat(topics, documents)
        return evaluation.mean_proportions(latent, key, topics, documents)

    def _flat(self, topics: Any, documents: Any) -> Float[Array, "s k v"]:
        """The draws of topics on one axis."""
        size = (self.prior.num_topics, self.prior.vocabulary)
        if jnp.shape(topics)[-2:] != size:
            raise ValueError(
                f"topics must end in the shape {size}, topics and words, got {jnp.shape(topics)}"
            )
        if not np.size(topics):
            raise ValueError(f"topics must have one draw at least, got {jnp.shape(topics)}")
        check_directions("topics", topics)
        check_vectors(documents, self.prior.vocabulary)
        return jnp.reshape(jnp.asarray(topics), (-1, *size))
