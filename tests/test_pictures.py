"""What pictures show is what they were given; each check fails on a planted fault."""

import ast
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sgmc_jax import Dist, Moments, Run, RunInfo, bnp, pictures
from sgmc_jax.evaluation import order
from sgmc_jax.tune import Arm, Tuned, arms

pytest.importorskip("matplotlib")

from matplotlib import pyplot as plt  # noqa: E402
from matplotlib.colors import same_color  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402

RNG = np.random.default_rng(0)
DRAWS = {"mu": RNG.normal(size=(3, 50, 2)), "n": RNG.integers(0, 5, (3, 50))}
LABELS = np.array([7] * 10 + [3] * 30 + [5] * 2)
POINTS = RNG.normal(size=(42, 2)) @ [[2.0, 1.0], [0.0, 0.5]] + 5 * LABELS[:, None]
WIDE = RNG.normal(size=(42, 4)) * [1.0, 5.0, 0.1, 3.0]
IMAGES, USED = RNG.normal(size=(4, 6)), np.array([2, 0, 7, 2])
TOPICS, WORDS = RNG.dirichlet(np.ones(5), 3), ["a", "b", "c", "d", "e"]
ON_SPHERE = RNG.normal(size=(2, 20, 3))
ON_SPHERE /= np.linalg.norm(ON_SPHERE, axis=-1, keepdims=True)


def a_run(trace, axes=("chain", "draw")):
    return Run(trace, RunInfo(None, None), None, np.full(3, -1), 50, axes)


RUN = a_run(DRAWS)
STEPS = (0.1, 0.01, 1.0)
SETTINGS = [{"word": w, "step_size": h, "size": 9} for w in ("ABO", "OBA") for h in STEPS]
KSD = (0.2, 0.4, np.inf, 0.3, 0.1, 0.9)
ARMS = [Arm(each, ksd, 1.0, 10, 10.0, 1) for each, ksd in zip(SETTINGS, KSD)]
TUNED = Tuned(None, SETTINGS[4], None, ARMS)  # type: ignore

CALLS = {
    "plot_trace": (RUN, "n"),
    "plot_ksd": (TUNED,),
    "plot_clusters": (POINTS, LABELS),
    "plot_features": (IMAGES[:2], (2, 3)),
    "plot_topics": (TOPICS[:2], WORDS),
    "plot_sphere": (ON_SPHERE,),
}
MANY = ("plot_trace", "plot_features", "plot_topics")  # of two axes, by these calls


def drawn(name, *args, **kwargs):
    return getattr(pictures, name)(*(args or CALLS[name]), **kwargs)


# what each picture must show


def trace_shows_its_draws():
    axes = drawn("plot_trace", RUN)
    assert [ax.get_xlabel() for ax in axes[:, 0]] == ["mu[0]", "mu[1]", "n"]
    assert [ax.get_ylabel() for ax in axes[:, 1]] == ["mu[0]", "mu[1]", "n"]
    columns = [DRAWS["mu"][..., 0], DRAWS["mu"][..., 1], DRAWS["n"]]
    for (left, right), draws in zip(axes, columns):
        np.testing.assert_array_equal([line.get_ydata() for line in right.lines], draws)
        for patch, line, own in zip(left.patches, right.lines, draws):
            assert same_color(patch.get_edgecolor(), line.get_color()[:2])
            outline = patch.get_xy()  # of the histogram: up and along
            edges, heights = np.unique(outline[:, 0]), outline[1::2, 1]
            shares = np.histogram(own, edges)[0] / len(own)
            np.testing.assert_allclose(heights[: len(shares)] * np.diff(edges), shares)


def ksd_shows_every_setting():
    ax = drawn("plot_ksd", TUNED)
    assert (ax.get_xlabel(), ax.get_xscale(), ax.get_yscale()) == ("step_size", "log", "log")
    lines = {line.get_label(): line.get_xydata() for line in ax.lines}
    np.testing.assert_array_equal(lines["word = ABO"], [(0.01, 0.4), (0.1, 0.2), (1.0, np.inf)])
    np.testing.assert_array_equal(lines["word = OBA"], [(0.01, 0.1), (0.1, 0.3), (1.0, 0.9)])
    np.testing.assert_array_equal(lines["chosen"], [(0.01, 0.1)])
    np.testing.assert_array_equal(lines["not finite"], [(1.0, 1.0)])


def clusters_have_their_colours():
    ax = drawn("plot_clusters", POINTS, LABELS)
    names = ["3: 30 items", "7: 10 items", "5: 2 items"]
    assert [points.get_label() for points in ax.collections] == names
    for points, label in zip(ax.collections, (3, 7, 5)):
        np.testing.assert_array_equal(points.get_offsets(), POINTS[label == LABELS])
    assert len({tuple(points.get_facecolor()[0]) for points in ax.collections}) == 3
    said = ax.get_legend()
    for handle, points in zip(said.legend_handles, ax.collections, strict=True):
        assert same_color(handle.get_facecolor()[0], points.get_facecolor()[0])


def ellipses_are_at_their_distance():
    ax = drawn("plot_clusters", POINTS, LABELS)
    clusters = np.repeat([3, 7], 2)  # one of two items has none
    for ellipse, label, sd in zip(ax.patches, clusters, (1, 2, 1, 2), strict=True):
        own = POINTS[label == LABELS]
        off = ellipse.get_patch_transform().transform([(1, 0), (0, 1), (0.6, 0.8)]) - own.mean(0)
        inverse = np.linalg.inv(np.cov(own.T, bias=True))
        np.testing.assert_allclose(np.sqrt(np.sum(off @ inverse * off, axis=1)), sd)


def components_are_principal():
    ax = drawn("plot_clusters", WIDE, LABELS)
    plane = np.concatenate([points.get_offsets() for points in ax.collections])
    best = np.linalg.eigvalsh(np.cov(WIDE.T))[::-1]
    np.testing.assert_allclose(np.cov(plane.T), np.diag(best[:2]), atol=1e-9)
    share = best / best.sum()
    assert ax.get_xlabel() == f"component 1 ({share[0]:.0%} of the variance)"
    assert ax.get_ylabel() == f"component 2 ({share[1]:.0%} of the variance)"


def features_are_sorted():
    axes = drawn("plot_features", IMAGES, (2, 3), counts=USED)
    shown = [np.asarray(ax.images[0].get_array()) for ax in axes]
    np.testing.assert_array_equal(shown, IMAGES[[2, 0, 3]].reshape(3, 2, 3))
    assert [ax.get_title() for ax in axes] == ["7", "2", "2"]
    limits = {ax.images[0].get_clim() for ax in axes}
    assert limits == {(IMAGES[[0, 2, 3]].min(), IMAGES[[0, 2, 3]].max())}


def topics_have_their_words():
    axes = drawn("plot_topics", TOPICS, WORDS, 2, counts=[4, 0, 9])
    assert [ax.get_title() for ax in axes] == ["topic 2: 9 words", "topic 0: 4 words"]
    assert len({ax.get_xlim() for ax in axes}) == 1 and axes[0].get_xlabel() == "probability"
    for ax, topic in zip(axes, TOPICS[[2, 0]]):
        bars = {bar.get_y(): bar.get_width() for bar in ax.patches}
        np.testing.assert_array_equal([bars[y] for y in sorted(bars)], np.sort(topic)[:-3:-1])
        words = [label.get_text() for label in ax.get_yticklabels()]
        assert words == [WORDS[i] for i in np.argsort(-topic)[:2]]
        assert ax.yaxis_inverted()  # the likeliest above


def sphere_shows_samples_and_means():
    means = ON_SPHERE.mean(1)
    ax = drawn("plot_sphere", ON_SPHERE, means)
    wires, *chains = ax.collections[:3]
    for chain, own in zip(chains, ON_SPHERE, strict=True):
        np.testing.assert_allclose(np.transpose(chain._offsets3d), own)
    lengths = [np.linalg.norm(line, axis=-1) for line in wires._segments3d]
    np.testing.assert_allclose(np.concatenate(lengths), 1)
    for arrow, mean in zip(ax.collections[3:], means, strict=True):
        tip, tail = arrow._segments3d[0]
        np.testing.assert_allclose(tip, 1.3 * mean / np.linalg.norm(mean))
        np.testing.assert_allclose(tail, 0, atol=1e-12)
    assert ax.get_xlim() == ax.get_ylim() == ax.get_zlim()


SHOWN = [
    trace_shows_its_draws,
    ksd_shows_every_setting,
    clusters_have_their_colours,
    ellipses_are_at_their_distance,
    components_are_principal,
    features_are_sorted,
    topics_have_their_words,
    sphere_shows_samples_and_means,
]


@pytest.mark.parametrize("check", SHOWN, ids=lambda check: check.__name__)
def test_pictures_show_what_they_were_given(check):
    check()


def wrong(function, change):
    return lambda *args: change(function(*args))


def backwards(found):
    return {name: found[other] for name, other in zip(found, reversed(found))}


def turned(ellipse):
    ellipse.set_angle(ellipse.get_angle() + 90)
    return ellipse


def mixed(points):
    """Labels of others: what colours that do not follow the partition would show."""
    return lambda _, partition: points(POINTS, np.roll(partition, 1))


trace, clusters, features, topics, sphere = (
    sys.modules[f"sgmc_jax.pictures.{name}"]
    for name in ("trace", "clusters", "features", "topics", "sphere")
)
FAULTS = {
    "names of others": (SHOWN[0], trace, "scalars", wrong(trace.scalars, backwards)),
    "bins too wide": (SHOWN[0], trace, "_edges", lambda x: np.array([x.min(), x.max() - 1])),
    "another number": (SHOWN[1], arms, "_is_number", lambda value: value == 9),
    "labels of others": (SHOWN[2], pictures, "plot_clusters", mixed(pictures.plot_clusters)),
    "one colour": (SHOWN[2], clusters, "_colours", lambda num: np.ones((num, 4))),
    "turned": (SHOWN[3], clusters, "_ellipse", wrong(clusters._ellipse, turned)),
    "first columns": (SHOWN[4], clusters, "_principal", lambda x: (x[:, :2], ["x", "y"])),
    "least used": (SHOWN[5], features, "most_used", wrong(order.most_used, lambda x: x[::-1])),
    "on its side": (SHOWN[5], features, "_sides", lambda shape, dim: shape[::-1]),
    "other words": (
        SHOWN[6],
        topics,
        "likeliest",
        wrong(order.likeliest, lambda x: (x[0], x[1][:, ::-1])),
    ),
    "other topics": (
        SHOWN[6],
        topics,
        "likeliest",
        wrong(order.likeliest, lambda x: (x[0][::-1], x[1])),
    ),
    "opposite": (SHOWN[7], sphere, "_unit", wrong(sphere._unit, lambda x: -x)),
    "egg": (SHOWN[7], sphere, "_wires", wrong(sphere._wires, lambda x: (2 * x[0], *x[1:]))),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_seen(name, monkeypatch):
    check, module, attribute, fault = FAULTS[name]
    monkeypatch.setattr(module, attribute, fault)
    with pytest.raises(AssertionError):
        check()


def test_another_choice_is_seen(monkeypatch):
    """Planted: the star is at another setting."""
    monkeypatch.setitem(globals(), "TUNED", TUNED._replace(setting=SETTINGS[0]))
    with pytest.raises(AssertionError):
        ksd_shows_every_setting()


# axes, figures, windows


@pytest.mark.parametrize("name", CALLS)
def test_no_figure_is_left_open_and_none_is_shown(name, monkeypatch):
    monkeypatch.setattr(plt, "show", lambda: pytest.fail("a picture opened a window"))
    plt.close("all")
    found = np.ravel(drawn(name))
    assert not plt.get_fignums()
    found[0].figure.canvas.draw()  # nothing in it is refused when it is drawn


@pytest.mark.parametrize("name", CALLS)
def test_the_axes_given_are_drawn_in(name):
    kind = {"subplot_kw": {"projection": "3d" if name == "plot_sphere" else None}}
    given = Figure().subplots(1, 3, **kind)
    if name in MANY:
        found = drawn(name, axes=given)
        assert found.ravel().tolist() == given[:2].tolist()
        assert not given[2].axison  # one to spare
    else:
        assert drawn(name, ax=given[1]) is given[1]
    for ax in set(given) - set(given[:2] if name in MANY else given[1:2]):
        assert not (ax.lines or ax.patches or ax.images or ax.collections)


def test_axes_that_do_not_fit():
    flat = Figure().subplots(1, 2)
    with pytest.raises(ValueError, match='ax must have projection="3d", got "rectilinear"'):
        drawn("plot_sphere", ax=flat[0])
    for name in MANY:
        with pytest.raises(ValueError, match="axes must be at least 2, one for each picture, got"):
            drawn(name, axes=flat[:1])
    with pytest.raises(TypeError, match="ax must be matplotlib's axes, got"):
        drawn("plot_clusters", ax=flat)


@pytest.mark.parametrize("name", CALLS)
def test_without_matplotlib_they_say_what_to_install(name, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match="pip install matplotlib"):
        drawn(name)


def test_matplotlib_is_not_imported_with_the_library():
    for path in Path(pictures.__file__).parent.glob("*.py"):
        nodes = ast.parse(path.read_text()).body
        imports = [ast.unparse(n) for n in nodes if isinstance(n, ast.Import | ast.ImportFrom)]
        assert imports and "matplotlib" not in " ".join(imports)


# what is refused, and what is not

BAD = [
    ("plot_trace", (TUNED,), TypeError, "run must be what sample returns, got Tuned"),
    ("plot_trace", (a_run(Moments(0, 0, 0)),), ValueError, "this run kept moments only"),
    ("plot_trace", (RUN, ["nu"]), ValueError, r"names must be some of .*'mu\[0\]'.*, got 'nu'"),
    ("plot_trace", (RUN, [3]), TypeError, "names must be those of run.summary"),
    ("plot_trace", (a_run({}),), ValueError, "run must have draws"),
    ("plot_ksd", (RUN,), TypeError, "tuned must be what grid_search or .* returns, got Run"),
    ("plot_ksd", (TUNED, "word"), ValueError, r"name must be one of \('step_size', 'size'\)"),
    ("plot_clusters", (POINTS[0], LABELS), ValueError, r"points must have the shape \(n, D\)"),
    ("plot_clusters", (POINTS[:, :1], LABELS), ValueError, "points must have two columns or more"),
    ("plot_clusters", (POINTS, LABELS[:3]), ValueError, "partition must have a label for each of"),
    ("plot_clusters", (POINTS * np.inf, LABELS), ValueError, "points must be finite"),
    ("plot_features", (IMAGES, (2, 2)), ValueError, "shape must be two numbers whose product is 6"),
    ("plot_features", (IMAGES[0], (2, 3)), ValueError, r"parameters must have the shape \(K, D\)"),
    ("plot_topics", (TOPICS, WORDS[:4]), ValueError, r"topics must have the shape \(K, 4\), got"),
    ("plot_topics", (TOPICS, "words", 0), ValueError, "num must be a whole number of at least 1"),
    ("plot_sphere", (2 * ON_SPHERE,), ValueError, "samples must be of length 1, .* off by up to 1"),
    ("plot_sphere", (POINTS,), ValueError, r"samples must have the shape \(draw, 3\), got"),
    ("plot_sphere", (ON_SPHERE, np.zeros(3)), ValueError, "directions must not be zero"),
]


@pytest.mark.parametrize("name, args, error, message", BAD)
def test_bad_input(name, args, error, message):
    with pytest.raises(error, match=message):
        drawn(name, *args)


def test_counts_that_do_not_fit():
    for name in ("plot_features", "plot_topics"):
        with pytest.raises(ValueError, match=r"counts must have the shape \(2,\), got \(3,\)"):
            drawn(name, counts=[1, 1, 1])
        with pytest.raises(ValueError, match="counts must be positive for some"):
            drawn(name, counts=[0, 0])
    with pytest.raises(TypeError, match="counts must be concrete"):
        jax.jit(lambda counts: drawn("plot_features", counts=counts)[0])(jnp.ones(2))


def test_names_and_leading_axes_of_runs():
    assert drawn("plot_trace", RUN, "mu").shape == (2, 2)
    shared = a_run(Dist({"w": DRAWS["mu"][0]}, {"label": DRAWS["n"][0]}), ("draw",))
    assert [ax.get_xlabel() for ax in drawn("plot_trace", shared)[:, 0]] == ["shared.w[0]"] + [
        "shared.w[1]"
    ]
    many = a_run(RNG.normal(size=(3, 5, 12)))
    assert len(drawn("plot_trace", many)) == 10


def test_draws_that_are_not_finite_leave_gaps():
    draws = np.array([[0.0, 1.0, np.nan, np.inf], [np.nan] * 4])
    left, right = drawn("plot_trace", a_run({"x": draws}))[0]
    np.testing.assert_array_equal([line.get_ydata() for line in right.lines], draws)
    assert len(left.patches) == 2
    assert not drawn("plot_trace", a_run({"x": draws[1:]}))[0, 0].patches


def test_partitions_as_they_come():
    """One cluster an item, a point estimate, and no ellipses."""
    ax = drawn("plot_clusters", WIDE, np.arange(42))
    assert len({tuple(points.get_facecolor()[0]) for points in ax.collections}) == 42
    assert len(ax.get_legend().texts) == 10 and not ax.patches
    labels, _ = bnp.point_estimate([LABELS, LABELS])
    ax = drawn("plot_clusters", POINTS, labels, sds=(), columns=["east", "north"])
    assert not ax.patches and (ax.get_xlabel(), ax.get_ylabel()) == ("east", "north")


def test_weights_of_words_may_be_negative():
    ax = drawn("plot_topics", np.log(TOPICS), WORDS, 5)[0]
    assert ax.get_xlabel() == "weight"
    assert ax.get_xlim()[0] < np.log(TOPICS).min() and ax.get_xlim()[1] == 0


def test_a_scalar_that_varies_by_rounding_alone(x64):
    """Of which bins cannot be told apart, in double precision; as a correlation with itself."""
    draws = np.where(np.random.default_rng(0).random((2, 50)) < 0.5, 1.0, np.nextafter(1.0, 2))
    left, _ = pictures.plot_trace(a_run({"one": draws}))[0]
    assert left.patches and np.ptp(draws) > 0


def test_counts_have_all_their_digits():
    counts = np.array([1_234_567, 3])
    (ax, _) = pictures.plot_topics(np.full((2, 3), 1 / 3), list("abc"), counts=counts)
    assert ax.get_title() == "topic 0: 1234567 words"
