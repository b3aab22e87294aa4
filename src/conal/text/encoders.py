"""Texts to embeddings by an encoder of the user's own, which is never downloaded."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from conal._files import real_path
from conal._progress import Progress
from conal.errors import InputError
from conal.text.features import VERSION, check_texts, stored_numbers

# A local folder with an ONNX model that makes an embedding of a text, and what identifies it. Nothing is unpickled.

FloatArray = npt.NDArray[np.float32]

MODEL_PLACES = ("model.onnx", "onnx/model.onnx")
"""Where the model can be, within the folder."""
TOKENIZER, MODULES, CONFIG = "tokenizer.json", "modules.json", "config.json"
OTHER_ENDINGS = frozenset({".onnx", ".md", ".txt", ".model", ".safetensors", ".h5", ".msgpack", ".ot"})
"""Endings of files beside a model that have no part of its weights, which may be in files of any other name."""
TRANSFORMERS_WEIGHTS = "pytorch_model.bin"
"""The one file of another ending that has none either."""


class EncoderFolder:
    """A folder with an encoder, before any of it is loaded: ``model.onnx`` (or ``onnx/model.onnx``) and a tokenizer.

    A ``modules.json``, as sentence-transformers writes it, says how embeddings of tokens are put together.

    Parameters
    ----------
    path : path
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(path)
        if not self.path.is_dir():
            raise InputError(
                f"{self.path}: there is no such folder; an encoder is a local folder, nothing is downloaded"
            )
        found = [self.path / place for place in MODEL_PLACES if (self.path / place).is_file()]
        if not found or not (self.path / TOKENIZER).is_file():
            raise InputError(
                f"{self.path}: is no encoder; expected model.onnx and {TOKENIZER}, which sentence-transformers saves "
                'with backend="onnx"'
            )
        self.model = found[0]

    @property
    def name(self) -> str:
        """The name of the folder, without the folders it lies in."""
        return real_path(self.path).name

    def digest(self) -> str:
        """SHA-256 of names and contents of all files that decide about embeddings."""
        total = hashlib.sha256()
        for path in self._files():
            with path.open("rb") as file:
                own = hashlib.file_digest(file, "sha256")
            total.update(f"{path.relative_to(self.path).as_posix()}\0{own.hexdigest()}\n".encode())
        return total.hexdigest()

    def _files(self) -> list[Path]:
        """In a fixed order."""
        parts = [path for path in self.model.parent.rglob("*") if _may_be_weights(path, self.model.parent)]
        steps = [self.module_folder(module) / CONFIG for module in self.modules()]
        found = [self.model, self.path / TOKENIZER, *parts, *steps]
        found += [*self.path.glob("*.json"), *self.path.glob(f"*/{CONFIG}")]
        files = {path for path in found if path.is_file()}
        return sorted(files, key=lambda path: path.relative_to(self.path).as_posix())

    def settings(self, path: Path) -> dict[str, Any]:
        """The object in a JSON file of the folder; an empty one if there is no file."""
        found = _document(path) if path.is_file() else {}
        if not isinstance(found, dict):
            raise InputError(f"{path}: must be a JSON object, not {type(found).__name__}; copy the encoder again")
        return found

    def modules(self) -> list[dict[str, Any]]:
        """The steps of a sentence-transformers model, each with its type and folder; none if they are not stated."""
        path = self.path / MODULES
        found = _document(path) if path.is_file() else []
        listed = isinstance(found, list)
        if not listed or not all(isinstance(each, dict) and isinstance(each.get("type"), str) for each in found):
            raise InputError(f"{path}: must list modules with a type; copy the encoder again")
        return list(found)

    def module_folder(self, module: dict[str, Any]) -> Path:
        """Where the files of a module are, inside of the encoder's folder."""
        name = module.get("path", "")
        try:
            place: Path = self.path / name
            inside = real_path(place).is_relative_to(real_path(self.path))
            place.is_dir()
        except (TypeError, ValueError, OSError) as error:  # no text, or a name that no file can have
            raise InputError(f"{self.path / MODULES}: has a module whose path cannot be one: {error}") from error
        if not inside:
            raise InputError(f"{self.path}: the module {name!r} is outside of the folder; copy the encoder again")
        return place


def _may_be_weights(path: Path, folder: Path) -> bool:
    hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
    return not hidden and path.suffix.lower() not in OTHER_ENDINGS and path.name != TRANSFORMERS_WEIGHTS


def _document(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: is no valid JSON ({error}); copy the encoder again") from error


@contextmanager
def refusing_errors(where: Path, what: str) -> Iterator[None]:
    """Errors of the packages that run an encoder, which have types of their own, as errors in the user's folder."""
    try:
        yield
    except (InputError, MemoryError):
        raise
    except Exception as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)[:200]
        raise InputError(f"{where}: {what} ({reason}); is it an encoder of texts?") from error


# Embeddings by an ONNX model: a tokenizer, the network, and the mean of what it says about the tokens.

PACKAGES = ("onnxruntime", "tokenizers")
BATCH_TEXTS = 32
DEFAULT_TOKENS = 512
"""Tokens of a text, where the folder does not say."""
MAX_TOKENS = 1_000_000
"""Tokens beyond which a limit means that there is none."""
SENTENCE = "sentence_embedding"
"""Name of an output that needs no pooling."""
POOLING = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls", "pooling_mode_max_tokens": "max"}
"""Flags of sentence-transformers, and what they mean here."""
POOLING_MODULE, NORMALIZE_MODULE = "Pooling", "Normalize"
KNOWN_MODULES = ("Transformer", POOLING_MODULE, NORMALIZE_MODULE)
INPUTS = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
"""Inputs of a model, and where a tokenizer has them."""
INTEGERS = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}
MIN_NORM = 1e-12


class OnnxEncoder:
    """An ONNX model of token or sentence embeddings, run by onnxruntime on the CPU.

    Embeddings of tokens are averaged, unless the folder's ``modules.json`` names another pooling ("cls" or "max"), and
    normalised to length 1 if it says so. Long texts are cut off where the folder says, after 512 tokens otherwise.

    Parameters
    ----------
    folder : EncoderFolder
    """

    def __init__(self, folder: EncoderFolder) -> None:
        if not all(map(find_spec, PACKAGES)):
            raise InputError(f"{folder.path}: needs {' and '.join(PACKAGES)}; run: pip install 'conal[encoder]'")
        import onnxruntime
        from tokenizers import Tokenizer

        self.where = folder.path
        self.pooling, self.normalize = _steps(folder)
        with refusing_errors(folder.path, "cannot be loaded"):
            self._session = onnxruntime.InferenceSession(str(folder.model), providers=["CPUExecutionProvider"])
            self._tokenizer = Tokenizer.from_file(str(folder.path / TOKENIZER))
            self._tokenizer.enable_truncation(_longest(folder, self._tokenizer.truncation))
        self._pad = int((self._tokenizer.padding or {}).get("pad_id", 0))
        self._tokenizer.no_padding()
        self._inputs = {found.name: INTEGERS.get(found.type) for found in self._session.get_inputs()}
        unknown = [name for name, kind in self._inputs.items() if name not in INPUTS or kind is None]
        if unknown:
            raise InputError(
                f"{folder.path}: the model takes {unknown[0]!r}, which is unknown; expected {', '.join(INPUTS)}"
            )
        names = [found.name for found in self._session.get_outputs()]
        self._output = SENTENCE if SENTENCE in names else names[0]

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """(n, d) embeddings, in the order of the texts."""
        # Surrogates without a partner have no UTF-8 form.
        clean = [text.encode("utf-8", "replace").decode("utf-8") for text in texts]
        with refusing_errors(self.where, "cannot encode these texts"):
            encodings = self._tokenizer.encode_batch(clean)
        order = sorted(range(len(encodings)), key=lambda k: len(encodings[k].ids))  # little padding
        found = np.concatenate(list(self._embedded([encodings[k] for k in order])))
        result = np.empty_like(found)
        result[order] = found
        if self.normalize:
            result /= np.maximum(np.linalg.norm(result, axis=1, keepdims=True), MIN_NORM)
        return result

    def _embedded(self, encodings: Sequence[Any]) -> Iterator[FloatArray]:
        for start in range(0, len(encodings), BATCH_TEXTS):
            some = encodings[start : start + BATCH_TEXTS]
            width = max(1, *(len(each.ids) for each in some))
            for each in some:
                each.pad(width, pad_id=self._pad)
            given = {
                name: np.array([getattr(each, INPUTS[name]) for each in some], dtype=kind)
                for name, kind in self._inputs.items()
            }
            with refusing_errors(self.where, "cannot encode these texts"):
                found = np.asarray(self._session.run([self._output], given)[0])
            if found.dtype.kind in "iu":
                found = found.astype(np.float64)
            is_number = found.dtype.kind == "f"
            if is_number and found.ndim == 3 and found.shape[:2] == (len(some), width):
                mask = np.array([each.attention_mask for each in some], dtype=np.float32)
                found = pooled(found, mask, self.pooling)
            if not is_number or found.ndim != 2 or len(found) != len(some) or not np.isfinite(found).all():
                raise InputError(f"{self.where}: gives no finite embedding for each text; is it an encoder of texts?")
            yield np.asarray(found, dtype=np.float32)


def pooled(tokens: npt.NDArray[Any], mask: npt.NDArray[Any], how: str) -> npt.NDArray[Any]:
    """(n, d) embeddings of texts from (n, t, d) embeddings of tokens; the (n, t) mask is 1 for tokens, 0 for padding.

    >>> tokens = np.array([[[1.0, 0.0], [3.0, 2.0], [9.0, 9.0]]])
    >>> [pooled(tokens, np.array([[1, 1, 0]]), how).tolist() for how in ("mean", "cls", "max")]
    [[[2.0, 1.0]], [[1.0, 0.0]], [[3.0, 2.0]]]
    """
    if how == "cls":
        return tokens[:, 0]
    if how == "max":
        lowest = np.finfo(tokens.dtype).min
        return np.asarray(np.where(mask[:, :, None] > 0, tokens, lowest).max(1))
    counts = np.maximum(mask.sum(1, keepdims=True), 1)
    return np.asarray(np.einsum("ntd,nt->nd", tokens, mask) / counts)


def _steps(folder: EncoderFolder) -> tuple[str, bool]:
    """How tokens are pooled and whether embeddings are normalised, as ``modules.json`` says."""
    pooling, normalize = "mean", False
    for module in folder.modules():
        name = module["type"].rpartition(".")[2]
        if name not in KNOWN_MODULES:
            raise InputError(f"{folder.path}: has the module {name!r}, which conal does not run; use another encoder")
        normalize |= name == NORMALIZE_MODULE
        if name == POOLING_MODULE:
            pooling = _pooling(folder, folder.module_folder(module))
    return pooling, normalize


def _pooling(folder: EncoderFolder, place: Path) -> str:
    stated = folder.settings(place / CONFIG)
    chosen = [flag for flag, value in stated.items() if flag.startswith("pooling_mode_") and value is True]
    named = stated.get("pooling_mode", "mean")  # as later versions write it
    chosen = chosen or [f"pooling_mode_{named}_token" + ("" if named == "cls" else "s")]
    if len(chosen) != 1 or chosen[0] not in POOLING:
        raise InputError(
            f"{place}: pools tokens by {', '.join(chosen)}; conal pools by mean, cls or max: use another encoder"
        )
    return POOLING[chosen[0]]


def _longest(folder: EncoderFolder, truncation: dict[str, Any] | None) -> int:
    """Tokens of a text after which it is cut off."""
    limit = folder.settings(folder.path / "sentence_bert_config.json").get("max_seq_length")
    positions = folder.settings(folder.path / CONFIG).get("max_position_embeddings")
    stated, usual = (
        [length for length in lengths if isinstance(length, int) and length > 0]
        for lengths in ([limit, (truncation or {}).get("max_length")], [positions, DEFAULT_TOKENS])
    )
    return min([*(stated or usual), MAX_TOKENS])


# ``EncodedTexts``: texts to embeddings by an encoder of the user's own.


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
        self._encoder: OnnxEncoder | None = None
        self.name, self.sha256 = self._folder.name, self._folder.digest()

    def state(self) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
        """Numbers for safetensors, and the rest for JSON."""
        return {"mean": self.mean_}, {"version": VERSION, "encoder": {"name": self.name, "sha256": self.sha256}}

    @classmethod
    def from_state(cls, tensors: Mapping[str, npt.NDArray[Any]], document: Mapping[str, Any]) -> Self:
        """As it was stored: without its encoder."""
        made = cls.__new__(cls)
        made._folder, made._encoder = None, None
        made.name, made.sha256 = str(document["encoder"]["name"]), str(document["encoder"]["sha256"])
        made.mean_ = stored_numbers(tensors, "mean")
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

    def _open(self) -> OnnxEncoder:
        if self._folder is None:
            raise InputError(
                f"the model needs its encoder {self.name!r}, which is not a part of it; pass the encoder's folder: "
                "--set encoder=DIR, or conal.load(folder, encoder=DIR)"
            )
        if self._encoder is None:
            self._encoder = OnnxEncoder(self._folder)
        return self._encoder

    def _centred(self, found: npt.NDArray[np.float32], present: npt.NDArray[np.bool_]) -> npt.NDArray[np.float32]:
        features = np.zeros((len(present), self.n_features), dtype=np.float32)
        features[present] = found - self.mean_
        return features


def _present(texts: Sequence[str]) -> npt.NDArray[np.bool_]:
    return np.array([bool(text.strip()) for text in texts])
