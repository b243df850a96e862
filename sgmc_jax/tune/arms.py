"""What was seen of the settings of a kernel, and which was the best."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from .. import _checks
from .._types import Kernel
from ..run import Run

Setting = dict[str, Any]


class Arm(NamedTuple):
    """What was seen of one setting.

    Attributes:
        setting: the arguments its kernel was made of.
        ksd: the discrepancy of its draws, infinite if its chain did not stay finite.
        temperature: the configurational temperature of its draws, 1 for those of the target: for a
            nearly normal one, about the ratio of their variances to its own.
        num_steps: the number of its steps so far, of each chain.
        evaluations: the number of gradients of an item's term that these took, of all chains.
        rounds: the number of rounds that it was run in.
        judged: the number of draws, of all rounds, at which scores were taken to judge it.

    Example:
        >>> arms = [Arm({"step_size": h}, 2 * h, 1.0, 100, 1e3, rounds=1) for h in (0.1, 0.5)]
        >>> min(arms, key=lambda arm: arm.ksd).setting
        {'step_size': 0.1}
    """

    setting: Setting
    ksd: float
    temperature: float
    num_steps: int
    evaluations: float
    rounds: int
    judged: int = 0


class Tuned(NamedTuple):
    """The best of several settings, and what was seen of all of them.

    Attributes:
        kernel: the kernel of the best setting.
        setting: the arguments it was made of.
        run: its chains, which `sample(key, kernel, run, data, ...)` goes on with.
        arms: every setting, in the order they were given in.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import draw, sample
        >>> kernel = draw(lambda key, data: 1.0)
        >>> run = sample(jax.random.key(0), kernel, jnp.zeros(()), None, num_steps=2)
        >>> arms = [Arm({"step_size": h}, 2 * h, 1.0, 100, 1e3, rounds=1) for h in (0.1, 0.5)]
        >>> tuned = Tuned(kernel, arms[0].setting, run, arms)
        >>> tuned.evaluations
        2000.0
    """

    kernel: Kernel
    setting: Setting
    run: Run
    arms: list[Arm]

    @property
    def evaluations(self) -> float:
        """The number of gradients of an item's term that all chains took."""
        return sum(arm.evaluations for arm in self.arms)

    def table(self) -> str:
        """What was seen of each setting, in Markdown: by rounds, and then by discrepancy."""
        names = list(self.setting)
        lines = [[*names, "KSD", "temperature", "steps", "gradients", "rounds"]]
        lines.append(["---"] * len(lines[0]))
        for arm in sorted(self.arms, key=lambda arm: (-arm.rounds, arm.ksd)):
            shown = [_shown(arm.setting[name]) for name in names]
            seen = (f"{arm.ksd:.4g}", f"{arm.temperature:.2f}", str(arm.num_steps))
            lines.append([*shown, *seen, f"{arm.evaluations:.3g}", str(arm.rounds)])
        return "\n".join("| " + " | ".join(line) + " |" for line in lines)

    def plot(self, name: str | None = None, ax: Any = None) -> Any:
        """The discrepancies against one number of the settings, on matplotlib's axes, returned.

        There is a colour for each combination of the others, a star at the setting chosen, and a
        cross at the upper edge for each whose draws did not stay finite. A line joins settings that
        were judged by as many draws; after `successive_halving` there is none, and larger points
        were in more rounds: a discrepancy of fewer draws is larger.

        Args:
            name: which one, by default the first number of several values.
            ax: axes to draw on, by default new ones.

        Raises:
            ValueError: if the settings have no number of that name.
        """
        varied = [n for n in self.setting if len({_shown(a.setting[n]) for a in self.arms}) > 1]
        numbers = [n for n in self.setting if all(_is_number(a.setting[n]) for a in self.arms)]
        if not numbers:
            raise ValueError(f"plot needs a number among the settings, got {list(self.setting)}")
        if name is None:
            name = next((n for n in numbers if n in varied), numbers[0])
        _checks.choice("name", name, numbers)
        values = [float(arm.setting[name]) for arm in self.arms]
        if ax is None:
            import matplotlib.pyplot as plt

            ax = plt.subplots()[1]
        lines: dict[str, list[tuple[float, float, int]]] = {}
        for arm, value in zip(self.arms, values):
            others = [f"{n} = {_shown(arm.setting[n])}" for n in varied if n != name]
            lines.setdefault(", ".join(others), []).append((value, arm.ksd, arm.rounds))
        # one that did not stay finite was not judged at all
        judged = {arm.judged for arm in self.arms if np.isfinite(arm.ksd)}
        joined = "-" if len({arm.rounds for arm in self.arms}) == len(judged) == 1 else "none"
        for label, points in lines.items():
            x, y, rounds = zip(*sorted(points), strict=True)
            (line,) = ax.plot(x, y, "o", linestyle=joined, markersize=4, label=label or None)
            ax.scatter(x, y, 16 * np.square(rounds), color=line.get_color())
        same = lambda arm: all(np.array_equal(arm.setting[n], x) for n, x in self.setting.items())
        best = next(i for i, arm in enumerate(self.arms) if same(arm))
        star = {"markersize": 16, "markerfacecolor": "none", "label": "chosen"}
        ax.plot(values[best], self.arms[best].ksd, "k*", **star)
        lost = [value for arm, value in zip(self.arms, values) if not np.isfinite(arm.ksd)]
        if lost:
            edge = {"transform": ax.get_xaxis_transform(), "clip_on": False}
            ax.plot(lost, [1.0] * len(lost), "rx", label="not finite", **edge)
        found = [arm.ksd for arm in self.arms if np.isfinite(arm.ksd)]
        # that of noisy scores, without pairs of a draw with itself, may be negative
        yscale = "log" if min(found) > 0 else "symlog"
        ax.set(xscale="log", yscale=yscale, xlabel=name, ylabel="kernel Stein discrepancy")
        ax.legend()
        return ax


def _is_number(value: Any) -> bool:
    return np.ndim(value) == 0 and jnp.issubdtype(np.asarray(value).dtype, np.number)


def _shown(value: Any) -> str:
    """A value of a setting in a table: a short number, a word as it is."""
    if isinstance(value, float) or hasattr(value, "dtype"):
        each = np.ravel(np.asarray(value)).tolist()  # Python's own
        return ", ".join(f"{x:.3g}" if isinstance(x, float) else str(x) for x in each)
    return str(value)
