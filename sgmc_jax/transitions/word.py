"""Words of letters: which may be one, and where it estimates the gradient."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float, PyTree

from .. import _checks
from .._estimators import Estimator
from .._types import Keys, Position, split
from ..spaces import Space
from .transition import Transition

_ESTIMATES = 2**31 - 2  # folded in, apart from the letters' keys, which are the first few


def check_word(word: Any, pieces: Any) -> None:
    """Raise unless it is a word of the letters of a dict of transitions."""
    if not isinstance(pieces, Mapping):
        raise TypeError(f"pieces must be a dict of transitions, got {type(pieces).__name__}")
    for letter, piece in pieces.items():
        _checks.instance(f"pieces[{letter!r}]", Transition, piece)
    if not isinstance(word, str) or not word or set(word) - set(pieces):
        raise ValueError(
            f"word must be made of the letters {sorted(pieces)}, got {_checks.shown(word)}"
        )


def check_dynamics(word: str, *needed: str, together: str = "") -> None:
    """Raise if the word, of a force B or E, samples another law.

    Of each of `needed` it must have a letter; of letters joined by a plus sign all, as in
    `"O E F+N"`: one of O, E or F and N. Of `together` it must have all or none: friction without
    its noise cools. Two forces are twice the force.
    """
    for choice in needed:
        if not any(set(way.split("+")) <= set(word) for way in choice.split()):
            wanted = " or ".join(way.replace("+", " and ") for way in choice.split())
            raise ValueError(f"word must have {wanted}, got {word!r}")
    if set("BE") <= set(word):
        raise ValueError(f"word must have B or E, which both add the force, got both in {word!r}")
    if set(together) & set(word) and not set(together) <= set(word):
        raise ValueError(f"word must have both {' and '.join(together)} or neither, got {word!r}")


def check_correctable(word: Any, *words: str) -> None:
    """Raise unless the word is one of these, once or several times, and after an R: in others what
    is subtracted of its noise does not make up for that of the estimate exactly."""
    rest = word.removeprefix("R") if isinstance(word, str) else ""
    if not any(rest and rest == len(rest) // len(once) * once for once in words):
        raise ValueError(f"noise_covariance can be subtracted in {words}, got word={word!r}")


def check_noise(
    word: str,
    pieces: dict[str, Transition],
    grad: Estimator,
    estimated: str | None,
    temperature: Any,
) -> None:
    """Raise if a letter's noise is of another temperature than the word's, at which momenta are
    drawn; if a covariance is told that no letter subtracts, or one that must not be."""
    for letter, piece in pieces.items():
        both = piece.temperature, temperature
        if piece.temperature is None or any(map(callable, both)):
            continue
        if _checks.certainly(lambda own, word: not np.allclose(own, word), *both):
            raise ValueError(
                f"temperature must be that of the letters, got {temperature} for the word and "
                f"{piece.temperature} for {letter!r}"
            )
    if estimated and not any(piece.corrects for piece in pieces.values()):
        raise ValueError(
            f"grad, {estimated}, tells the covariance of its noise, which no letter of the word "
            f"{word!r} can subtract"
        )
    given = any(piece.subtracts for piece in pieces.values())
    if not grad.independent and (estimated or given):
        raise ValueError(
            "noise_covariance cannot be subtracted from the noise of batches that depend on those "
            "of earlier steps, such as Epoch's, which adds up to nearly nothing: let them be "
            "Uniform"
        )


def check_start(
    word: str, pieces: dict[str, Transition], position: Position, h: Float[Array, ""]
) -> None:
    """Raise if a letter cannot begin at a position, with its share of the first step size h."""
    for letter, piece in pieces.items():
        piece.check_position(position)
        if not callable(piece.temperature):  # which may be 0 in a search, where noise is clipped
            piece.check_start(position, h / word.count(letter))


def told_to(pieces: dict[str, Transition], grad: Estimator, space: Space) -> Estimator:
    """The estimator, its noise told in the coordinates of the letter that subtracts it, or in the
    frame of the space.

    Raises:
        ValueError: if several subtract it, not all in those of the position.
    """
    if not grad.tells_covariance:
        return grad
    own = [piece.pull for piece in pieces.values() if piece.corrects]
    if all(pull is None for pull in own):
        # it may have been another kernel's
        return grad.told_in(space.pull if space.framed and not space.embedded else None)
    if len(own) > 1:
        raise ValueError(
            f"the letters {[letter for letter in pieces if pieces[letter].corrects]} subtract the "
            "noise of grad in different coordinates, in which only one can be told it"
        )
    return grad.told_in(own[0])


def carries(pieces: list[Transition]) -> bool:
    """Whether a step begins and ends with a use of the field at one and the same position."""
    moves = [i for i, piece in enumerate(pieces) if piece.moves]
    before = pieces[: moves[0] + 1 if moves else 1]
    after = pieces[moves[-1] + 1 if moves else 0 :]
    return all(any(piece.uses_field for piece in part) for part in (before, after))


def num_estimates(pieces: list[Transition]) -> int:
    """The number of estimates of a step, which begins with a fresh one if the word carries it."""
    count, fresh = 0, carries(pieces)
    for piece in pieces:
        count += piece.uses_field and not fresh
        fresh = (fresh or piece.uses_field) and not piece.moves
    return count


def estimate_keys(keys: Keys, number: int) -> list[Keys]:
    """Keys of each of a step's estimates, whose batches are counted on from step to step."""
    count = lambda i: None if keys.count is None else keys.count * number + i
    noise = jax.random.fold_in(keys.noise, _ESTIMATES)
    pairs = (split(key, max(1, number)) for key in (noise, keys.batch))
    return [Keys(noise, batch, count(i)) for i, (noise, batch) in enumerate(zip(*pairs))]


def auxiliaries(pieces: dict[str, Transition], position: Position) -> dict[str, PyTree]:
    """What the pieces keep, as a chain begins."""
    kept: dict[str, PyTree] = {}
    for letter, piece in pieces.items():
        own = piece.auxiliary(position)
        if taken := sorted(own.keys() & kept.keys()):
            raise ValueError(f"piece {letter!r} keeps {taken}, as another piece does")
        kept |= own
    return kept
