"""Control variates inside Gibbs, where other blocks change the prior and not the likelihood."""

from __future__ import annotations

from typing import Any

from sgmc_jax import ControlVariate


class Anchored(ControlVariate):
    """A `ControlVariate` whose sum at the centre stays when hyper-parameters have been drawn."""

    def retarget(self, key: Any, estate: Any, position: Any, data: Any) -> Any:
        return self.refresh(key, estate, position, data)
