"""``EncodedTexts``: texts to embeddings by an encoder of the user's own."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from conal._support.progress import Progress
from conal.errors import InputError
from conal.text.encoders import Encoder, EncoderFolder
from conal.text.features import check_texts

__all__ = ["EncodedTexts"]


class EncodedTexts:
    r"""Texts to features by an encoder in a local folder: :math:`x_d = e(d) - \bar e`, embeddings less their mean.

    The features of an empty text are zero: those of an average text. Nothing but the mean is learned.

    A model stores the encoder's name and a digest of its files, never the encoder or the place where it lies. A loaded
    model takes the folder from the user (:meth:`attach`), and refuses one whose files differ.

    Parameters
    ----------
    folder : path
        As :class:`conal.text.encoders.EncoderFolder` describes it.

    Attributes
    ----------
    name, sha256 : str
        The folder's name and the digest of its files.
    mean_ : (d,) float64
        Mean embedding of the training texts.
    """

    mean_: npt.NDArray[np.float64]

    def __init__(self, folder: str | PathLike[str]) -> None:
        self._folder: EncoderFolder | None = EncoderFolder(folder)
        self._encoder: Encoder | None = None
        self.name, self.sha256 = self._folder.name, self._folder.digest()

    @classmethod
    def detached(cls, name: str, sha256: str, mean: npt.NDArray[np.float64]) -> Self:
        """As it is stored: without its encoder."""
        made = cls.__new__(cls)
        made._folder, made._encoder = None, None
        made.name, made.sha256, made.mean_ = name, sha256, mean
        return made

    def attach(self, folder: str | PathLike[str]) -> Self:
        """Use the encoder in this folder, which must be the one that the model was trained with."""
        found = EncoderFolder(folder)
        if found.digest() != self.sha256:
            raise InputError(
                f"{found.path}: is not the encoder {self.name!r} that the model was trained with; its files differ"
            )
        self._folder, self._encoder = found, None
        return self

    def __getstate__(self) -> dict[str, Any]:
        """Without the loaded encoder: it is loaded again from its folder."""
        return self.__dict__ | {"_encoder": None}

    @property
    def n_features(self) -> int:
        """d."""
        return len(self.mean_)

    def fit_transform(
        self, X: Sequence[str], y: Any = None, *, progress: Progress | None = None
    ) -> npt.NDArray[np.float32]:
        """Embeddings of the training texts, less their mean."""
        texts = check_texts(X)
        (progress or Progress()).update(0, 1, f"embeddings of {len(texts):,} texts")
        present = _present(texts)
        if not present.any():
            raise InputError("all texts are empty; are these the texts, and is it the right column?")
        found = self._open().encode([text for text, is_there in zip(texts, present, strict=True) if is_there])
        self.mean_ = found.mean(0, dtype=np.float64)
        return self._centred(found, present)

    def transform(self, X: Sequence[str]) -> npt.NDArray[np.float32]:
        """(n, d) features; zero where a text is empty."""
        texts = check_texts(X)
        present = _present(texts)
        some = [text for text, is_there in zip(texts, present, strict=True) if is_there]
        found = self._open().encode(some) if some else np.empty((0, self.n_features), dtype=np.float32)
        if found.shape[1] != self.n_features:
            raise InputError(
                f"the encoder gives {found.shape[1]:,} numbers per text, the model expects {self.n_features:,}"
            )
        return self._centred(found, present)

    def _open(self) -> Encoder:
        if self._folder is None:
            raise InputError(
                f"the model needs its encoder {self.name!r}, which is not a part of it; pass the encoder's folder: "
                "--encoder DIR, or conal.load(folder, encoder=DIR)"
            )
        if self._encoder is None:
            self._encoder = self._folder.open()
        return self._encoder

    def _centred(self, found: npt.NDArray[np.float32], present: npt.NDArray[np.bool_]) -> npt.NDArray[np.float32]:
        features = np.zeros((len(present), self.n_features), dtype=np.float32)
        features[present] = found - self.mean_
        return features


def _present(texts: Sequence[str]) -> npt.NDArray[np.bool_]:
    return np.array([bool(text.strip()) for text in texts])
