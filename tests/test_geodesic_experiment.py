"""What the experiments on manifolds measure by, and with."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sgmc_jax import Full, FunctionModel, Minibatch, Sphere, Stiefel, gmc, sample

pytest.importorskip("matplotlib")
common = pytest.importorskip("experiments.common")

KEY = jax.random.key(0)


def options(folder, size="small"):
    return common.Options(KEY, size, folder, folder)


def test_masses_of_a_law_of_angles():
    """Of 1 + cos(a) / 2; draws that have them are at distance zero, all in one bin far away."""
    from experiments.geodesic.chains import distances, masses

    exact = masses(lambda a: jnp.log(1 + jnp.cos(a) / 2), bins=4)
    quarter = 1 / 4 - np.sin(np.pi / 2) / (4 * np.pi)
    assert exact == pytest.approx([quarter, 1 / 2 - quarter, 1 / 2 - quarter, quarter], abs=1e-5)
    assert distances(exact * 100, exact) == pytest.approx((0, 0), abs=1e-12)
    assert distances(np.array([100.0, 0, 0, 0]), exact)[0] == pytest.approx(1 - quarter, abs=1e-5)


def test_bins_of_angles():
    from experiments.geodesic.chains import angle, counts, unit

    angles = np.array([[-3.1, -3.1, 0.1], [3.1, 1.0, -1.0]])
    assert angle(unit(jnp.asarray(angles))) == pytest.approx(angles, abs=1e-5)
    assert counts(angles, bins=4).tolist() == [[2, 0, 1, 0], [0, 1, 1, 1]]


def test_noise_put_on_a_gradient():
    from experiments.geodesic.chains import Corrupted

    grad = Corrupted(Minibatch(FunctionModel(lambda x: 5 * x[0]), Full()), 9.0)
    at = jnp.array([0.6, 0.8])
    one = lambda key: grad.estimate(key, grad.init(key, at, None), at, None)[0].value
    values = np.asarray(jax.vmap(one)(jax.random.split(KEY, 4_000)))
    assert values.mean(0) == pytest.approx([5, 0], abs=0.2)
    assert np.cov(values.T) == pytest.approx(9 * np.eye(2), abs=0.7)


def test_noise_on_the_circle_is_subtracted_up_to_twice_the_friction():
    from experiments.geodesic import circle

    means = circle.READINGS["angles"]
    assert len(circle.kernels(means, (0.02,))) == 4  # h = 2 C / V
    with pytest.raises(ValueError, match="exceeds the noise of the sampler"):
        circle.kernels(means, (0.0201,))
    at = jnp.array([1.0, 0.0])  # as far from both
    assert float(circle.log_density(means, at)) == pytest.approx(2.5 + np.log(3), abs=1e-5)


def test_two_directions_by_quadrature():
    """Without items, angles of the prior; with items, both orders of the two have some mass."""
    from experiments.geodesic import two_means

    truth = two_means.exact(two_means.draw(KEY), fine=2)
    assert truth.sum() == pytest.approx(1) and truth.shape == (two_means.BINS,) * 2
    correlation, larger = (float(x) for x in two_means.summary(truth))
    assert correlation < -0.5 and 0.02 < larger < 0.98
    trace = two_means.unit(jnp.array([[[-0.79, 0.79], [0.0, 3.0]]]))
    number = two_means.binned(trace)
    assert number[0, 0, -1] == 1 and number[0, two_means.BINS // 2, -1] == 1


def test_errors_of_components_are_those_of_anderson():
    from experiments.geodesic import components

    rng = np.random.default_rng(0)
    scale = np.repeat([9.0, 6.0, 4.0, 2.0, 1.0], [1, 1, 1, 1, 12])
    images = (rng.normal(size=(500, 16)) * scale).reshape(-1, 4, 4)
    made = components.faces(images)
    values, found = made.values, components.predicted(made)
    assert values[components.RANK :].mean() == pytest.approx(1)
    anderson = values[0] * values[1] / (500 * (values[0] - values[1]) ** 2)
    assert found[0, 1] == pytest.approx(anderson) == pytest.approx(found[1, 0])
    beyond = 1 / (500 * (1 - 1 / values[0]) * (values[0] - values[9]))
    assert found[9, 0] == pytest.approx(beyond)
    assert components.pooled(np.arange(25.0).reshape(1, 5, 5)).tolist() == [[[3, 5], [13, 15]]]


def test_gradients_of_faces_are_tangent():
    """Of each item, as projections of what they are otherwise; and so is the sum of few items."""
    from experiments.geodesic import components

    made = components.faces(np.random.default_rng(0).normal(size=(30, 4, 4)))
    weight, data = components.shrinkage(made), jnp.asarray(made.items)
    w = Stiefel().random_point(KEY, jnp.zeros((16, components.RANK)))
    plain, tangent = (
        jax.jit(components.model(weight, tangent=how).per_item)(w, data) for how in (False, True)
    )
    projected = jax.jit(jax.vmap(lambda g: Stiefel().project(w, g)))(plain)
    assert np.asarray(tangent) == pytest.approx(np.asarray(projected), abs=1e-4)
    score = jax.jit(components.model(weight).score)
    whole = [score(w, jnp.asarray(items)) for items in (made.items, components.condensed(made))]
    assert np.asarray(whole[0]) == pytest.approx(np.asarray(whole[1]), abs=1e-3)


def test_faces_that_are_missing(tmp_path):
    from experiments.geodesic import components

    with pytest.raises(SystemExit, match="cbcl_faces.npz is missing: put the 2,429 faces.*\n.*`x`"):
        next(components.run(options(tmp_path)))


def test_moments_of_an_inverse_wishart_law():
    stats = pytest.importorskip("scipy.stats")
    from experiments.geodesic.covariance import InverseWishart

    scale = np.array([[3.0, 1.0], [1.0, 2.0]])
    law = InverseWishart(scale, 11.0)
    draws = stats.invwishart.rvs(11, scale, size=20_000, random_state=0)
    assert law.mean == pytest.approx(draws.mean(0), abs=0.01)
    assert law.deviation == pytest.approx(draws.std(0), rel=0.04)
    assert law.mean_log_det == pytest.approx(np.linalg.slogdet(draws)[1].mean(), abs=0.01)


def test_the_model_of_a_covariance_has_the_posterior():
    """Log densities in the entries differ by a constant."""
    stats = pytest.importorskip("scipy.stats")
    from experiments.geodesic import covariance

    prior = covariance.InverseWishart(np.eye(4), 6.0)
    items = covariance.flowers()[:20]
    law = covariance.posterior(prior, items)
    target, data = covariance.model(prior), jnp.asarray(items, jnp.float32)
    gaps = []
    for sigma in (np.diag([20.0, 10.0, 15.0, 5.0]), law.mean):
        x = jnp.asarray(sigma, jnp.float32)
        own = target.logdensity(x, data) + covariance.SPD().log_element(x)
        gaps.append(float(own) - stats.invwishart.logpdf(sigma, law.degrees, law.scale))
    assert gaps[0] == pytest.approx(gaps[1], abs=2e-3)


def test_distances_in_a_tree():
    from experiments.geodesic import tree

    made = tree.plant(2)
    far = {(int(i), int(j)): d for (i, j), d in zip(made.pairs, made.edges)}
    assert made.size == 7 and len(far) == 21 and made.train == 17
    assert (far[0, 1], far[1, 2], far[3, 4], far[3, 6], far[0, 5]) == (1, 2, 2, 4, 2)
    for plane in tree.PLANES.values():
        start = tree.layout(made, plane, 1.0)
        plane.space.check(start["points"])
        assert np.isfinite(jax.jit(tree.model(plane).logdensity)(start, made.items))
    x = tree.layout(made, tree.PLANES["hyperbolic"], 1.0)["points"]
    apart = np.arccosh(np.asarray(x[3, 0] * x[4, 0] - x[3, 1:] @ x[4, 1:], float))
    assert float(tree.hyperbolic(x[3], x[4])) == pytest.approx(apart, rel=1e-2)


def test_runs_are_kept_after_half_as_many_steps():
    from experiments.geodesic.chains import chains

    kernel = gmc(Minibatch(FunctionModel(lambda x: 5.0 * x[0]), Full()), Sphere(), 0.5, 2)
    args = {"num_chains": 3, "thin": 2}
    start = jnp.array([1.0, 0.0])
    done = chains(KEY, kernel, start, None, num_steps=16, **args)
    assert done.trace.shape == (3, 8, 2) and done.seconds >= 0
    whole = sample(KEY, kernel, start, None, num_steps=24, burn_in=8, **args)
    assert np.asarray(done.trace) == pytest.approx(np.asarray(whole.trace), abs=1e-5)


def test_no_draw_is_lost_where_thinning_does_not_divide():
    """Three quarters of a draw's steps go before as a whole draw's, and all draws are kept."""
    from experiments.geodesic.chains import chains

    kernel = gmc(Minibatch(FunctionModel(lambda x: 5.0 * x[0]), Full()), Sphere(), 0.5, 2)
    done = chains(KEY, kernel, jnp.array([1.0, 0.0]), None, num_steps=21, num_chains=2, thin=7)
    assert done.trace.shape == (2, 3, 2)


def test_the_error_of_a_distortion_is_that_of_four_chains():
    """Scales of one draw each; of points a unit apart in a tree whose edges are 1 and 2."""
    from experiments.geodesic import tree
    from experiments.geodesic.chains import Chains

    made, scale = tree.plant(1), np.array([[2.0], [3.0], [4.0], [6.0]])
    points = np.array([[0, 0], [1, 0], [0.5, np.sqrt(0.75)]])
    trace = {"points": np.tile(points, (4, 1, 1, 1)), "scale": scale, "noise": np.ones((4, 1))}
    done = Chains(trace, common.argparse.Namespace(kernel=None), None, 1.0)
    each = np.mean(np.abs(scale / np.array([1, 1, 2]) - 1), axis=1)
    mean, error = tree.row("", made, tree.PLANES["flat"], done)[1].split(" ± ")
    assert float(mean) == pytest.approx(each.mean(), abs=1e-3)
    assert float(error) == pytest.approx(each.std(ddof=1) / 2, abs=1e-3)


def test_methods_are_told_of_before_the_one_that_judges_them():
    """Of two seeds; "-" where the last score of the judge is not reached."""
    from experiments.geodesic.topics import report

    lines = lambda found: [line.split("|")[1:-1] for line in report(found).splitlines()[2:]]
    seconds, low, high = np.array([1.0, 2.0]), np.array([-3.0, -5.0]), np.array([-2.0, -4.0])
    found = {"SGGMC": [(seconds, low)]}
    assert lines(found) == [[" SGGMC ", " -5.0 ", " -5.0 ", "  "]]
    found = {"SGGMC": [(seconds, low), (seconds, high)], "VI": [(seconds, high)]}
    assert lines(found)[0] == [" SGGMC ", " -4.5 ", " -5.0, -4.0 ", " 2.0 "]
    found["VI"].append((seconds, low))
    assert lines(found)[0][3] == " 2.0, - " and lines(found)[1][3] == " 2.0, 2.0 "


def test_the_picture_of_the_sphere_asks_for_densities_on_it_alone(tmp_path):
    from experiments.geodesic import sphere

    sphere.picture(tmp_path / "sphere.png", sphere.fibonacci(20))
    assert (tmp_path / "sphere.png").is_file()


@pytest.mark.at_length
@pytest.mark.full
def test_parts_without_data(tmp_path):
    """Covariances that are exact by `gmc`, and draws that are where the density is."""
    from experiments.geodesic import covariance, sphere

    *_, text = covariance.run(options(tmp_path))
    lines = text.splitlines()
    gmc_row = next(line for line in lines if line.startswith("| gmc"))
    assert float(gmc_row.split("|")[4]) < 4
    for line in next(sphere.run(options(tmp_path))).splitlines()[2:]:
        exact, drawn = (cell.split() for cell in line.split("|")[2:4])
        assert abs(float(drawn[0]) - float(exact[0])) < 5 * float(drawn[2])
    assert (tmp_path / "sphere.png").is_file()
