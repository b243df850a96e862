"""Finding modes and settings."""

from .mode import find_mode as find_mode
