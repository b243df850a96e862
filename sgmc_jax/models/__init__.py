"""Models with samplers of their own."""

from ._lda_kernels import TopicState as TopicState
from .lda import LDA as LDA
from .series import CategoricalEmission as CategoricalEmission
from .series import Emission as Emission
from .series import FunctionEmission as FunctionEmission
from .series import HiddenMarkov as HiddenMarkov
from .series import NormalEmission as NormalEmission
from .series import PoissonEmission as PoissonEmission
from .series import SeriesModel as SeriesModel
from .spherical import SphericalAdmixture as SphericalAdmixture
