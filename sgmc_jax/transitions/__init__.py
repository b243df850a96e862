"""Exactly solvable pieces of a diffusion, the letters of `Splitting`."""

from .cir import CIR
from .constraint import Projection, Reflection
from .euler import EulerLangevin, EulerMomentum, GeodesicLangevin
from .expanded_mean import ExpandedMeanLangevin
from .geodesic import GeodesicFlow
from .geometric_ornstein_uhlenbeck import GeometricOrnsteinUhlenbeck
from .gradient import GradientKick
from .matrix_friction import (
    FrictionMatrix,
    MatrixEuler,
    MatrixFriction,
    MatrixOrnsteinUhlenbeck,
    friction_letters,
)
from .mirrored import MirroredLangevin
from .noise import NoiseCovariance
from .ornstein_uhlenbeck import Friction, Noise, OrnsteinUhlenbeck
from .position_matrix import Divergence, PositionMatrix
from .preconditioned import PreconditionedLangevin
from .recipe import RecipeEuler
from .refreshment import MomentumRefreshment
from .riemannian import InverseMetric, RiemannianFlow, RiemannianMomentum
from .thermostat import Thermostat
from .total import FixedTotal, GammaTotal
from .transition import Phase, Transition, check_phase

__all__ = [
    "CIR",
    "Divergence",
    "EulerLangevin",
    "EulerMomentum",
    "ExpandedMeanLangevin",
    "FixedTotal",
    "Friction",
    "FrictionMatrix",
    "GammaTotal",
    "GeodesicFlow",
    "GeodesicLangevin",
    "GeometricOrnsteinUhlenbeck",
    "GradientKick",
    "InverseMetric",
    "MatrixEuler",
    "MatrixFriction",
    "MatrixOrnsteinUhlenbeck",
    "MirroredLangevin",
    "MomentumRefreshment",
    "Noise",
    "NoiseCovariance",
    "OrnsteinUhlenbeck",
    "Phase",
    "PositionMatrix",
    "PreconditionedLangevin",
    "Projection",
    "RecipeEuler",
    "Reflection",
    "RiemannianFlow",
    "RiemannianMomentum",
    "Thermostat",
    "Transition",
    "check_phase",
    "friction_letters",
]
