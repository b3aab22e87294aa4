"""TF-IDF and the truncated SVD against scikit-learn and plain linear algebra, and texts of every kind."""

from __future__ import annotations

import pickle
import time
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from sklearn.base import clone
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer

from conal.errors import DataWarning, InputError
from conal.text import TextFeatures
from conal.text.features import STYLE, count_terms, fit_style, fit_terms, piece_terms, style_numbers, word_terms
from helpers.progress import Listener

TOPICS = (
    "the cat sat on a mat and purred while cats slept",
    "prices rose as markets traded shares and bonds in the market",
    "the striker scored a goal and the keeper saved goals in the match",
)


def make_texts(n: int, seed: int = 0, length: int = 12) -> list[str]:
    rng = np.random.default_rng(seed)
    topics = [topic.split() for topic in TOPICS]
    return [" ".join(rng.choice(topics[k % 3], size=length)) for k in range(n)]


def weights_by_hand(texts: list[str], analyzer: Any, vocabulary: tuple[str, ...]) -> npt.NDArray[np.float64]:
    """The formula, one number at a time."""
    rows = np.zeros((len(texts), len(vocabulary)))
    terms = [list(analyzer(text)) for text in texts]
    for t, term in enumerate(vocabulary):
        documents = sum(term in found for found in terms)
        for d, found in enumerate(terms):
            if term in found:
                rows[d, t] = 1 + np.log((1 + len(texts)) / (1 + documents))
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(lengths > 0, lengths, 1)


def style_by_hand(texts: list[str]) -> npt.NDArray[np.float64]:
    """Numbers about style with mean 0 and a hundredth of variance each, at most three deviations from 0."""
    numbers = np.array([style_numbers(text) for text in texts])
    deviation = numbers.std(0)
    scores = (numbers - numbers.mean(0)) / np.where(deviation > 1e-9, deviation, np.inf)
    return np.asarray(0.1 * scores.clip(-3, 3))


# -------------------------------------------------------------------- weights


@pytest.mark.parametrize("analyzer", [word_terms, piece_terms])
def test_weights_are_those_of_the_formula_and_of_scikit_learn(analyzer: Any) -> None:
    texts = [*make_texts(20), "", "cat cat cat"]
    terms, weights = fit_terms(texts, analyzer, 10_000)
    np.testing.assert_allclose(weights.toarray(), weights_by_hand(texts, analyzer, terms.vocabulary), rtol=1e-12)
    theirs = TfidfVectorizer(analyzer=analyzer, binary=True, min_df=2)
    np.testing.assert_allclose(weights.toarray(), theirs.fit_transform(texts).toarray(), rtol=1e-12)
    assert terms.vocabulary == tuple(theirs.get_feature_names_out())
    new = [*make_texts(5, seed=9), "unheard of", "the the cat"]
    np.testing.assert_allclose(terms.transform(new).toarray(), theirs.transform(new).toarray(), rtol=1e-12)


@pytest.mark.parametrize("analyzer", [word_terms, piece_terms])
def test_terms_are_counted_as_scikit_learn_does_text_by_text(analyzer: Any) -> None:
    texts = [*make_texts(20), "", "!", "cat cat cat", "a\0 \0", "\u13a0"]  # the last stays a capital without case
    theirs = CountVectorizer(analyzer=analyzer)
    expected = theirs.fit_transform(texts).toarray()
    counts, terms = count_terms(texts, analyzer)
    assert terms.tolist() == theirs.get_feature_names_out().tolist()
    np.testing.assert_array_equal(counts.toarray(), expected)
    some = terms[::-2].tolist()  # a vocabulary has an order of its own
    np.testing.assert_array_equal(count_terms(texts, analyzer, some)[0].toarray(), expected[:, ::-2])
    assert [count_terms(["", ""], analyzer, known)[0].shape for known in (None, some)] == [(2, 0), (2, len(some))]


def test_terms_of_one_text_are_left_out_unless_all_are() -> None:
    assert fit_terms(["a b", "b c"], word_terms, 100)[0].vocabulary == ("b",)
    assert fit_terms(["a", "b c"], word_terms, 100)[0].vocabulary == ("a", "b", "b c", "c")


def test_a_capped_vocabulary_keeps_the_terms_of_most_texts() -> None:
    texts = ["z z z z z a", "z b a", "b a", "b c", "c a"]  # a in 4, b in 3, z and c in 2
    assert fit_terms(texts, word_terms, 2)[0].vocabulary == ("a", "b")
    assert fit_terms(texts, word_terms, 3)[0].vocabulary == ("a", "b", "b a")  # of equals, the first
    features = TextFeatures(max_terms=2).fit(texts)
    assert [len(terms.vocabulary) for terms in features.terms_.values()] == [2, 2]


def test_style_is_what_is_written() -> None:
    found = dict(zip(STYLE, style_numbers("Who? ME, 12\nme. me"), strict=True))
    wanted = {
        "words": np.log(6),
        "lines": np.log(2),
        "capitals": 3 / 18,
        "digits": 2 / 18,
        "?": 1 / 5,
        "!": 0,
        ",": 1 / 5,
        ".": 1 / 5,
        "characters per word": 18 / 5,
        "different words": 1,
    }
    assert found == pytest.approx(wanted)
    assert np.isfinite(style_numbers("")).all()


def test_style_of_texts_is_standardised_cut_off_and_constant_numbers_do_not_count() -> None:
    texts = [*(f"a {'b ' * k}" for k in range(12)), "a " * 4000]
    style, weights = fit_style(texts)
    np.testing.assert_allclose(weights.toarray(), style_by_hand(texts), atol=1e-12)
    assert weights.toarray()[-1, 0] == pytest.approx(0.3)  # cut off
    assert not weights.toarray()[:, STYLE.index("?")].any()
    np.testing.assert_array_equal(style.transform(texts[::-1]).toarray(), weights.toarray()[::-1])


# -------------------------------------------------------------------- features


def test_features_are_projections_of_joined_weights() -> None:
    """Against dense linear algebra: as many directions as there are, so that the subspace is exact."""
    texts = make_texts(40)
    made = TextFeatures(n_components=39).fit(texts)
    blocks = [
        weights_by_hand(texts, analyzer, made.terms_[kind].vocabulary)
        for kind, analyzer in (("words", word_terms), ("pieces", piece_terms))
    ]
    joined = np.hstack([np.hstack(blocks) / np.sqrt(2), style_by_hand(texts)])
    features = made.transform(texts)
    assert features.dtype == np.float32
    expected = joined @ made.components_.T.astype(float)
    np.testing.assert_allclose(features, expected - expected.mean(0), atol=2e-6)
    np.testing.assert_allclose(made.components_ @ made.components_.T, np.eye(len(made.components_)), atol=1e-5)
    values = np.linalg.svd(joined, compute_uv=False)
    kept = np.linalg.svd(expected, compute_uv=False)
    np.testing.assert_allclose(kept, values[: len(kept)], rtol=1e-3)


def test_directions_are_those_of_scikit_learn_but_for_a_rotation() -> None:
    """Inner products of the features are those of the exact SVD, and no feature is much fainter than the others."""
    texts = make_texts(60)
    made = TextFeatures(5, seed=3).fit(texts)
    vectorizers = (TfidfVectorizer(analyzer=a, binary=True, min_df=2) for a in (word_terms, piece_terms))
    terms = np.hstack([each.fit_transform(texts).toarray() for each in vectorizers]) / np.sqrt(2)
    joined = np.hstack([terms, style_by_hand(texts)])
    exact = TruncatedSVD(5, algorithm="arpack", random_state=0).fit_transform(joined)
    ours = joined @ made.components_.T
    np.testing.assert_allclose(ours @ ours.T, exact @ exact.T, atol=0.02)


def test_no_feature_is_much_fainter_than_others() -> None:
    """The directions themselves differ by more than ten to one, which standardising each would undo."""
    made = TextFeatures(100)
    texts = make_texts(100)
    sizes = made.fit_transform(texts).std(0)
    assert sizes.max() < 4 * sizes.min()
    plain = np.linalg.svd(made.transform(texts), compute_uv=False)
    assert plain[0] > 10 * plain[-1]


def test_same_seed_same_features_in_any_order_of_texts() -> None:
    texts = make_texts(50)
    first, again = (TextFeatures(10, seed=4).fit_transform(texts) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, TextFeatures(10, seed=5).fit_transform(texts))
    made = TextFeatures(10, seed=4).fit(texts)
    np.testing.assert_array_equal(made.transform(texts), first)
    np.testing.assert_array_equal(TextFeatures(10, seed=4).fit_transform(texts[::-1]), first[::-1])


def test_a_text_alone_has_the_features_that_it_has_among_others() -> None:
    made = TextFeatures(10).fit(make_texts(50))
    new = [*make_texts(4, seed=8), ""]
    alone = np.vstack([made.transform([text]) for text in new])
    np.testing.assert_allclose(made.transform(new), alone, atol=1e-7)


def test_texts_that_say_nothing_are_average() -> None:
    texts = [*make_texts(30), "", "   ", "\ud800"]
    made = TextFeatures(8)
    features = made.fit_transform(texts)
    assert not features[30:].any()
    np.testing.assert_allclose(features[:30].mean(0), 0, atol=1e-6)
    assert not made.transform(["", "никогда", "\n"]).any()
    assert made.transform(["cat"]).any()


@pytest.mark.parametrize("n", [1, 2, 3, 10])
def test_few_texts_have_few_features(n: int) -> None:
    texts = make_texts(n, length=5)
    features = TextFeatures(200).fit_transform(texts)
    assert features.shape[0] == n
    assert 1 <= features.shape[1] <= max(1, n - 1)
    assert np.isfinite(features).all()


def test_a_single_term() -> None:
    with pytest.warns(DataWarning, match="the same words"):
        made = TextFeatures().fit(["1", "1", ""])
    assert made.terms_["words"].vocabulary == ("1",)
    assert made.terms_["pieces"].vocabulary == (" 1 ",)


def test_equal_texts_have_one_feature_and_a_warning() -> None:
    with pytest.warns(DataWarning, match="all texts contain the same words"):
        features = TextFeatures().fit_transform(["the same words"] * 10)
    assert features.shape == (10, 1)
    np.testing.assert_allclose(features, 0, atol=1e-6)


def test_texts_without_a_word() -> None:
    with pytest.raises(InputError, match="no text contains a word"):
        TextFeatures().fit(["", " ", "\n"])


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ("one text", "put it into a list"),
        ([], "no texts"),
        (["a", 3], "text 1 is of type int"),
        ([b"a"], "text 0 is of type bytes"),
    ],
)
def test_what_is_no_list_of_texts(texts: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        TextFeatures().fit(texts)


@pytest.mark.parametrize("parameters", [{"n_components": 0}, {"max_terms": 1.5}, {"n_components": True}])
def test_parameters_that_cannot_be_meant(parameters: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=f"{next(iter(parameters))} must be a whole number of at least 1"):
        TextFeatures(**parameters).fit(["a"])


def test_at_home_in_scikit_learn() -> None:
    made = TextFeatures(7, max_terms=50, seed=2).fit(make_texts(30))
    assert clone(made).get_params() == {"n_components": 7, "max_terms": 50, "seed": 2}
    restored = pickle.loads(pickle.dumps(made))  # noqa: S301 - our own object
    np.testing.assert_array_equal(restored.transform(make_texts(5, 3)), made.transform(make_texts(5, 3)))


def test_topics_are_told_apart_in_english_and_in_text_without_blanks() -> None:
    """Nearest mean of the class, on texts that were not trained on; scikit-learn's words know none of the second."""
    rng = np.random.default_rng(0)
    signs = [[chr(0x4E00 + 40 * k + int(i)) + chr(0x5000 + 40 * k + int(i)) for i in range(12)] for k in range(3)]
    unspaced = ["".join(rng.choice(signs[k % 3], size=8)) for k in range(120)]
    for texts in (make_texts(120, length=4), unspaced):
        made = TextFeatures(20)
        features, new = made.fit_transform(texts[:60]), made.transform(texts[60:])
        means = np.stack([features[k::3].mean(0) for k in range(3)])
        nearest = ((new[:, None] - means) ** 2).sum(2).argmin(1)
        assert (nearest == np.arange(60) % 3).mean() > 0.9


@pytest.mark.slow
def test_cost_is_linear_in_a_long_text() -> None:
    def seconds(length: int) -> float:
        text = " ".join(f"word{k % 5000}" for k in range(length))
        begin = time.process_time()
        TextFeatures().fit(["word1 word2", text, "word2 word3"])
        return time.process_time() - begin

    seconds(1000)
    short, long = (min(seconds(n) for _ in range(2)) for n in (20_000, 160_000))  # the second is 1.4 MB
    assert long < 16 * short + 1


def test_every_step_of_learning_is_told() -> None:
    listener = Listener()
    texts = ["a good film", "a bad film", "good", "bad, bad film"]
    features = TextFeatures().fit_transform(texts, progress=listener)
    np.testing.assert_array_equal(features, TextFeatures().fit_transform(texts))
    assert listener.told == [
        (0, 4, "terms of 4 texts"),
        (1, 4, "terms of 4 texts"),
        (2, 4, "singular value decomposition"),
        (3, 4, "features"),
    ]
