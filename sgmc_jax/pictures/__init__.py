"""Pictures of what the library returns, drawn by matplotlib, which they need.

Each takes the thing and, if one likes, matplotlib's axes to draw in, and returns these axes. New
axes are of a figure that no window and no list of open figures knows: `ax.figure` shows it in a
notebook, `ax.figure.savefig` writes it.
"""

from .clusters import plot_clusters
from .features import plot_features
from .ksd import plot_ksd
from .sphere import plot_sphere
from .topics import plot_topics
from .trace import plot_trace

__all__ = [
    "plot_clusters",
    "plot_features",
    "plot_ksd",
    "plot_sphere",
    "plot_topics",
    "plot_trace",
]
