"""Exactly solvable pieces of a diffusion, the letters of `Splitting`."""

from .cir import CIR as CIR
from .constraint import Projection as Projection
from .constraint import Reflection as Reflection
from .euler import EulerLangevin as EulerLangevin
from .euler import EulerMomentum as EulerMomentum
from .euler import GeodesicLangevin as GeodesicLangevin
from .expanded_mean import ExpandedMeanLangevin as ExpandedMeanLangevin
from .geodesic import GeodesicFlow as GeodesicFlow
from .geometric_ornstein_uhlenbeck import (
    GeometricOrnsteinUhlenbeck as GeometricOrnsteinUhlenbeck,
)
from .gradient import GradientKick as GradientKick
from .matrix_friction import FrictionMatrix as FrictionMatrix
from .matrix_friction import MatrixEuler as MatrixEuler
from .matrix_friction import MatrixFriction as MatrixFriction
from .matrix_friction import MatrixOrnsteinUhlenbeck as MatrixOrnsteinUhlenbeck
from .matrix_friction import friction_letters as friction_letters
from .mirrored import MirroredLangevin as MirroredLangevin
from .noise import NoiseCovariance as NoiseCovariance
from .ornstein_uhlenbeck import Friction as Friction
from .ornstein_uhlenbeck import Noise as Noise
from .ornstein_uhlenbeck import OrnsteinUhlenbeck as OrnsteinUhlenbeck
from .position_matrix import Divergence as Divergence
from .position_matrix import PositionMatrix as PositionMatrix
from .preconditioned import PreconditionedLangevin as PreconditionedLangevin
from .recipe import RecipeEuler as RecipeEuler
from .riemannian import InverseMetric as InverseMetric
from .riemannian import RiemannianFlow as RiemannianFlow
from .riemannian import RiemannianMomentum as RiemannianMomentum
from .thermostat import Thermostat as Thermostat
from .total import FixedTotal as FixedTotal
from .total import GammaTotal as GammaTotal
from .transition import Phase as Phase
from .transition import Transition as Transition
from .transition import check_phase as check_phase
