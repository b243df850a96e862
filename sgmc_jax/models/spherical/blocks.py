"""Topics and proportions in turn, each by geodesic Monte Carlo (GMC-bGibbs)."""

from __future__ import annotations

from typing import Any

import equinox as eqx
from jaxtyping import Array, Float

from ... import _checks
from ..._estimators import Estimate
from ..._types import Kernel, Position
from ...batching import Full
from ...gradients import Minibatch
from ...model import Model
from ...spaces import Sphere
from ...trajectory import leapfrog
from .density import GivenProportions, Prior
from .proportions import ProportionMoves, Proportions


class AllGiven(Model):
    """log p(topics, v | theta) of all documents, whose proportions are a row each."""

    given: GivenProportions
    theta: Float[Array, "d k"]

    def logprior(self, position: Position) -> Float[Array, ""]:
        return self.given.logprior(position)

    def loglik(self, position: Position, item: Any) -> Float[Array, ""]:
        raise TypeError("a document alone does not tell which proportions are its own")

    def loglik_batch(self, position: Position, items: Any) -> Float[Array, " d"]:
        return self.given.loglik_batch(position, (items, self.theta[:, None]))

    def weighted_sum(self, position: Position, items: Any, weight: Float[Array, " d"]) -> Estimate:
        return self.given.weighted_sum(position, (items, self.theta[:, None]), weight)


class TopicBlock(eqx.Module):
    """`rest -> kernel` of the topics given the proportions."""

    prior: Prior
    step_size: Float[Array, ""] = eqx.field(converter=_checks.real("step_size"))
    num_integration_steps: int = eqx.field(static=True)

    def __call__(self, rest: dict[str, Any]) -> Kernel:
        model = AllGiven(GivenProportions(self.prior), rest["proportions"])
        steps = (self.step_size, self.num_integration_steps)
        return leapfrog(Minibatch(model, Full()), *steps, Sphere())


class ProportionBlock(eqx.Module):
    """`rest -> kernel` of the proportions given the topics."""

    latent: Proportions

    def __call__(self, rest: dict[str, Any]) -> Kernel:
        return ProportionMoves(self.latent, rest["topics"])
