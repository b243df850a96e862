"""What was seen of the settings of a kernel, and which was the best."""

from __future__ import annotations

from typing import Any, NamedTuple

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
    """

    setting: Setting
    ksd: float
    temperature: float
    num_steps: int
    evaluations: float
    rounds: int


class Tuned(NamedTuple):
    """The best of several settings, and what was seen of all of them.

    Attributes:
        kernel: the kernel of the best setting.
        setting: the arguments it was made of.
        run: its chains, which `sample(key, kernel, run, data, ...)` goes on with.
        arms: every setting, in the order they were given in.
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

        Args:
            name: which one, by default the first of several values; there is a line for each
                combination of the others.
            ax: axes to draw on, by default new ones.
        """
        import matplotlib.pyplot as plt

        ax = plt.subplots()[1] if ax is None else ax
        varied = [n for n in self.setting if len({_shown(a.setting[n]) for a in self.arms}) > 1]
        name = name or next(iter(varied), next(iter(self.setting)))
        lines: dict[str, list[tuple[float, float]]] = {}
        for arm in self.arms:
            others = [f"{n} = {_shown(arm.setting[n])}" for n in varied if n != name]
            lines.setdefault(", ".join(others), []).append((float(arm.setting[name]), arm.ksd))
        for label, points in lines.items():
            ax.plot(*zip(*sorted(points), strict=True), "o-", label=label or None)
        best = next(arm for arm in self.arms if arm.setting == self.setting)
        ax.plot(float(best.setting[name]), best.ksd, "k*", markersize=12, label="chosen")
        ax.set(xscale="log", yscale="log", xlabel=name, ylabel="kernel Stein discrepancy")
        ax.legend()
        return ax


def _shown(value: Any) -> str:
    """A value of a setting in a table: a short number, a word as it is."""
    return f"{value:.3g}" if isinstance(value, float) or hasattr(value, "dtype") else str(value)
