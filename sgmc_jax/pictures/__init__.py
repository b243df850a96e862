"""Pictures of what the library returns, drawn by matplotlib, which they need.

Each takes the thing and, if one likes, matplotlib's axes to draw in, and returns these axes. New
axes are of a figure that no window and no list of open figures knows: `ax.figure` shows it in a
notebook, `ax.figure.savefig` writes it.
"""

from .clusters import plot_clusters as plot_clusters
from .features import plot_features as plot_features
from .ksd import plot_ksd as plot_ksd
from .sphere import plot_sphere as plot_sphere
from .topics import plot_topics as plot_topics
from .trace import plot_trace as plot_trace
