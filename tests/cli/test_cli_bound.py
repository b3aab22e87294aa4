"""``conal bound``: the theorem on a model folder or a simulated crowd, the same as the library."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import conal as package
from conal import theory

if TYPE_CHECKING:
    from cli.conftest import Crowd, Run

Write = Callable[..., Path]

SMALL = ("--simulate", "--n", 20, "--n-classes", 3, "--n-annotators", 8, "--labels-per-instance", 2)
HEADER = ("task", "worker", "label")


def parameters(model: Path, x: Any) -> tuple[Any, Any, Any, Any]:
    clf = package.load(model)
    return clf.predict_proba(x), clf.common_confusion_, clf.annotator_confusion_, clf.common_noise_rate(x)


def observed_of(crowd: Crowd, n: int) -> Any:
    mask = np.zeros((n, 6), dtype=bool)
    for task, worker, _ in crowd.rows:
        if task < n:
            mask[task, int(worker[1:])] = True
    return mask


def assert_same(found: dict[str, Any], bound: theory.ErrorLowerBound) -> None:
    for name in ("value", "raw", "entropy_term", "kl_term", "tight_value", "tight_raw", "tight_kl_term"):
        assert found[name] == pytest.approx(getattr(bound, name), rel=1e-5, abs=1e-9), name
    assert found["constant_term"] == bound.constant_term
    assert found["n_instances"] == bound.n_instances


# -------------------------------------------------------------------- of a model


def test_all_annotators_on_all_rows(conal: Run, model: Path, shared_crowd: Crowd) -> None:
    run = conal("bound", model, "--features", shared_crowd.features, "--json", "--draws", 50, "--seed", 3)
    found = run.json()
    assert run.err == ""
    p = parameters(model, shared_crowd.x)
    assert_same(found, theory.error_lower_bound(*p))
    best = theory.bayes_error(*p, n_draws=50, seed=3)
    assert (found["bayes_error"], found["bayes_error_se"]) == pytest.approx(best, rel=1e-3)
    assert (found["n_annotators"], found["n_annotations"], found["n_classes"]) == (6, 540, 3)
    assert (found["epsilon"], found["draws"]) == (0, 50)


def test_labels_say_who_labelled_what(conal: Run, model: Path, shared_crowd: Crowd) -> None:
    files = ("--features", shared_crowd.features, "--labels", shared_crowd.labels)
    found = conal("bound", model, *files, "--n", 7, "--json").json()
    p = parameters(model, shared_crowd.x[:7])
    observed = observed_of(shared_crowd, 7)
    assert_same(found, theory.error_lower_bound(*p, observed=observed))
    best = theory.bayes_error(*p, observed=observed, n_draws=200)
    assert found["bayes_error"] == pytest.approx(best.value, rel=1e-3)
    assert found["n_annotations"] == 21


def test_n_takes_the_first_rows(conal: Run, model: Path, shared_crowd: Crowd) -> None:
    found = conal("bound", model, "--features", shared_crowd.features, "--n", 5, "--json").json()
    assert_same(found, theory.error_lower_bound(*parameters(model, shared_crowd.x[:5])))
    assert conal("bound", model, "--features", shared_crowd.features, "--n", 500, "--json").json()["n_instances"] == 90


def test_epsilon_is_named_and_smooths_both(conal: Run, model: Path, shared_crowd: Crowd) -> None:
    arguments = ("bound", model, "--features", shared_crowd.features, "--n", 4, "--epsilon", 0.5)
    found = conal(*arguments, "--json").json()
    rho, pi_g, pi_r, omega = parameters(model, shared_crowd.x[:4])
    assert_same(found, theory.error_lower_bound(rho, pi_g, pi_r, omega, epsilon=0.5))
    best = theory.bayes_error(rho, theory.smooth(pi_g, 0.5), theory.smooth(pi_r, 0.5), omega, n_draws=200)
    assert found["bayes_error"] == pytest.approx(best.value, rel=1e-3)
    assert found["epsilon"] == 0.5
    assert "smoothed by epsilon 0.5" in conal(*arguments).out


def test_features_with_ids_are_joined(conal: Run, model: Path, shared_crowd: Crowd, tmp_path: Path) -> None:
    """In another order, with one row that nobody labelled, by an unusual name of the task column."""
    order = np.random.default_rng(1).permutation(90)
    np.savez(tmp_path / "x.npz", X=np.vstack([shared_crowd.x[order], shared_crowd.x[:1]]), ids=np.append(order, 999))
    text = shared_crowd.labels.read_text(encoding="utf-8").replace("task,worker,label", "picture,who,what")
    (tmp_path / "l.csv").write_text(text, encoding="utf-8")
    names = ("--task-column", "picture", "--worker-column", "who", "--label-column", "what")
    run = conal(
        "bound", model, "--features", tmp_path / "x.npz", "--labels", tmp_path / "l.csv", "--json", "--n", 6, *names
    )
    p = parameters(model, shared_crowd.x[:6])
    assert_same(run.json(), theory.error_lower_bound(*p, observed=observed_of(shared_crowd, 6)))
    assert "1 feature rows match no task" in run.err


def test_a_stranger_goes_by_the_common_confusion(
    conal: Run, model: Path, shared_crowd: Crowd, tmp_path: Path, write: Write
) -> None:
    labels = write(tmp_path / "l.csv", HEADER, [(4, "nobody", "cat"), (4, "w2", "dog"), (9, "nobody", "dog")])
    found = conal("bound", model, "--features", shared_crowd.features, "--labels", labels, "--json").json()
    rho, pi_g, pi_r, omega = parameters(model, shared_crowd.x[[4, 9]])
    rates = np.column_stack([np.ones(2), omega[:, 2]])
    observed = np.array([[True, True], [True, False]])
    assert_same(found, theory.error_lower_bound(rho, pi_g, [pi_g, pi_r[2]], rates, observed=observed))
    assert (found["n_instances"], found["n_annotators"], found["n_annotations"]) == (2, 2, 3)


def test_labels_of_other_classes_count_as_labels(
    conal: Run, model: Path, shared_crowd: Crowd, tmp_path: Path, write: Write
) -> None:
    """What was said does not matter, only who said something."""
    labels = write(tmp_path / "l.csv", HEADER, [(0, "w1", "horse"), (0, "w2", "dog")])
    found = conal("bound", model, "--features", shared_crowd.features, "--labels", labels, "--json").json()
    assert found["n_annotations"] == 2


def test_conal_em_is_welcome_and_others_are_not(conal: Run, shared_crowd: Crowd, tmp_path: Path) -> None:
    for method in ("conal-em", "dl-cl"):
        files = (shared_crowd.labels, "--features", shared_crowd.features, "--out", tmp_path / method)
        assert conal("fit", *files, "--method", method, "--epochs", 2, "--quiet").code == 0
    assert conal("bound", tmp_path / "conal-em", "--features", shared_crowd.features).code == 0
    message = conal("bound", tmp_path / "dl-cl", "--features", shared_crowd.features).refusal()
    assert "method 'dl-cl' does not separate common from individual confusion" in message
    assert "'conal'" in message


def test_text_says_what_and_quiet_nothing(conal: Run, model: Path, shared_crowd: Crowd) -> None:
    arguments = ("bound", model, "--features", shared_crowd.features, "--n", 3)
    run = conal(*arguments)
    assert (run.code, run.err) == (0, "")
    head, plain, tight, best, corollary = run.out.splitlines()
    assert head == "3 instances, 3 classes, 18 labels by 6 annotators, as if each labelled every instance"
    assert plain.startswith("lower bound ")
    assert tight.startswith("  tighter, mixtures ")
    assert "entropy" in plain
    assert "KL" in plain
    assert best.startswith("Bayes-optimal error ")
    assert "200 draws" in best
    assert corollary.startswith("corollary ")
    assert conal(*arguments, "--quiet").out == ""


# -------------------------------------------------------------------- simulated


def test_a_simulated_crowd_is_the_generators(conal: Run) -> None:
    settings = ("--common-strength", 0.6, "--proportion", 0.3, "--individual-strength", 0.5)
    run = conal("bound", *SMALL, *settings, "--common-type", "symmetric", "--epsilon", 0.2, "--seed", 5, "--json")
    found = run.json()
    data = package.datasets.synthetic(
        n_train=20,
        n_valid=0,
        n_test=0,
        n_classes=3,
        n_annotators=8,
        labels_per_instance=2,
        common_strength=0.6,
        common_type="symmetric",
        individual_strength=0.5,
        proportion=0.3,
        seed=5,
    )
    assert data.truth is not None
    truth, rho = data.truth, np.full(3, 1 / 3)
    observed = data.annotations.to_matrix() >= 0
    omega = truth.omega_matrix()
    bound = theory.error_lower_bound(rho, truth.pi_g, truth.pi_r, omega, observed=observed, epsilon=0.2)
    assert_same(found, bound)
    smoothed = theory.smooth(truth.pi_g, 0.2), theory.smooth(truth.pi_r, 0.2)
    best = theory.bayes_error(rho, *smoothed, omega, observed=observed, n_draws=200, seed=5)
    assert (found["bayes_error"], found["bayes_error_se"]) == pytest.approx(best)
    assert found["n_annotations"] == data.annotations.n_annotations


def test_the_generators_zeros_make_it_void(conal: Run) -> None:
    """Infinity is null in JSON, and the text says why and what to do."""
    found = conal("bound", *SMALL, "--json").json()
    assert (found["value"], found["tight_value"]) == (0, 0)
    assert found["raw"] is found["kl_term"] is found["min_instances"] is None
    assert 0 < found["bayes_error"] < 0.5
    text = conal("bound", *SMALL).out
    assert "20 instances, 3 classes" in text
    assert "makes the theorem void; see --epsilon" in text
    assert "no instance has F > 0" in text


def test_few_noisy_instances_have_a_positive_bound(conal: Run) -> None:
    noisy = ("--n", 4, "--individual-strength", 0.6, "--labels-per-instance", 1, "--epsilon", 0.4)
    found = conal("bound", "--simulate", *noisy, "--json").json()
    assert 0.05 < found["value"] < found["tight_value"] < found["bayes_error"] < 1
    assert found["n_classes"] == 6
    assert found["min_instances"] > 1
    text = conal("bound", "--simulate", *noisy).out
    assert f"it decreases with more instances from N = {found['min_instances']:.3g}" in text
    assert "void" not in text


def test_defaults_of_a_simulation(conal: Run) -> None:
    found = conal("bound", "--simulate", "--draws", 2, "--json").json()
    assert (found["n_instances"], found["n_classes"], found["n_annotators"]) == (100, 6, 30)
    assert 250 < found["n_annotations"] < 350


def test_a_simulation_needs_no_torch() -> None:
    code = (
        "import sys; sys.argv = ['conal', 'bound', '--simulate', '--n', '5', '-q']\n"
        "from conal.cli import main\n"
        "try:\n    main()\nexcept SystemExit as ended:\n    assert ended.code == 0\n"
        "assert 'torch' not in sys.modules and 'sklearn' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


# -------------------------------------------------------------------- refused


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "pass a model folder and --features, or --simulate"),
        (("--features", "x.npy"), "pass a model folder and --features, or --simulate"),
        (("MODEL",), "--features is missing"),
        (("MODEL", "--features", "X", "--n-classes", 3), "--n-classes is a setting of a simulated crowd"),
        (("--proportion", 0.5), "--proportion is a setting of a simulated crowd; add --simulate"),
        (("MODEL", "--simulate"), "exclude each other"),
        (("--simulate", "--features", "x.npy"), "--features (x.npy) exclude each other"),
        (("--simulate", "--labels", "l.csv"), "--labels (l.csv) exclude each other"),
        (("--simulate", "--n", 0), "--n"),
        (("--simulate", "--draws", 1), "--draws"),
        (("--simulate", "--epsilon", 1.5), "--epsilon"),
        (("--simulate", "--epsilon", "nan"), "epsilon"),
        (("--simulate", "--seed", -1), "--seed"),
        (("--simulate", "--n-classes", 1), "n_classes must be a whole number of at least 2"),
        (("--simulate", "--common-strength", 2), "common_strength must be a number from 0 to 1"),
        (("--simulate", "--labels-per-instance", 99), "labels_per_instance must be at most n_annotators, 30, not 99"),
        (
            ("--simulate", "--common-type", "sideways"),
            "common_type must be 'asymmetric' or 'symmetric', not 'sideways'",
        ),
        (("nowhere", "--features", "X"), "nowhere"),
        (("MODEL", "--features", "nowhere.npy"), "nowhere.npy"),
        (("MODEL", "--features", "X", "--labels", "nowhere.csv"), "nowhere.csv"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    conal: Run, model: Path, shared_crowd: Crowd, arguments: tuple[object, ...], words: str
) -> None:
    real = {"MODEL": model, "X": shared_crowd.features}
    assert words in conal("bound", *(real.get(str(word), word) for word in arguments)).refusal()


def test_features_of_another_shape_are_refused(conal: Run, model: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((4, 3)))
    assert "shape (3,)" in conal("bound", model, "--features", tmp_path / "x.npy").refusal()


def test_no_rows_are_refused(conal: Run, model: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((0, 5)))
    conal("bound", model, "--features", tmp_path / "x.npy").refusal()


def test_labels_of_other_tasks_are_refused(
    conal: Run, model: Path, shared_crowd: Crowd, tmp_path: Path, write: Write
) -> None:
    labels = write(tmp_path / "l.csv", HEADER, [("a", "w1", "cat"), ("b", "w1", "dog")])
    message = conal("bound", model, "--features", shared_crowd.features, "--labels", labels).refusal()
    assert "cannot be matched" in message
