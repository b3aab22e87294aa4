"""Encoders of texts: local folders with a model that makes an embedding of a text, and what identifies them.

No encoder is ever downloaded, and none is unpickled: a folder holds an ONNX model, or safetensors weights.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from conal._support.paths import real_path
from conal.errors import InputError
from conal.text.onnx_data import external_files

__all__ = ["Encoder", "EncoderFolder", "SentenceTransformerEncoder", "check_packages"]

FloatArray = npt.NDArray[np.float32]

MODEL_PLACES = ("model.onnx", "onnx/model.onnx")
"""Where an ONNX model can be, within the folder."""
TOKENIZER, MODULES, CONFIG = "tokenizer.json", "modules.json", "config.json"
PICKLED = frozenset({".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".joblib"})
"""Endings of files that run code of their author when they are read."""
TRANSFORMERS_WEIGHTS = "pytorch_model.bin"
"""The one pickled file that is never read where safetensors weights lie beside it."""
OWN_MODULES = "sentence_transformers."
IDENTIFYING = frozenset({".json", ".txt", ".model", ".safetensors"})
"""Files of a sentence-transformers folder that decide about embeddings."""
CHUNK = 2**20


class Encoder(Protocol):
    """Makes embeddings of texts."""

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """(n, d) embeddings."""


class EncoderFolder:
    """A folder with an encoder, before any of it is loaded.

    A folder with ``model.onnx`` (or ``onnx/model.onnx``) and ``tokenizer.json`` is run by onnxruntime. Otherwise it
    must be a folder of sentence-transformers (``modules.json``) whose weights are safetensors.

    Parameters
    ----------
    path : path

    Attributes
    ----------
    kind : "onnx" or "sentence-transformers"
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(path)
        if not self.path.is_dir():
            raise InputError(
                f"{self.path}: there is no such folder; an encoder is a local folder, nothing is downloaded"
            )
        self.model = next((place for place in MODEL_PLACES if (self.path / place).is_file()), None)
        if self.model is not None and (self.path / TOKENIZER).is_file():
            self.kind = "onnx"
        elif (self.path / MODULES).is_file():
            self.kind = "sentence-transformers"
        else:
            raise InputError(
                f"{self.path}: is no encoder; expected model.onnx and {TOKENIZER}, or {MODULES} of "
                "sentence-transformers"
            )

    @property
    def name(self) -> str:
        """The name of the folder, without the folders it lies in."""
        return real_path(self.path).name

    def files(self) -> list[Path]:
        """All files that decide about embeddings, in a fixed order."""
        if self.kind == "onnx":
            model = self.path / str(self.model)
            parts = [path for path in model.parent.iterdir() if path.name.startswith(f"{model.name}")]
            steps = [self.module_folder(module) / CONFIG for module in self.modules()]
            found = [*parts, *external_files(model), self.path / TOKENIZER, *steps]
            found += [*self.path.glob("*.json"), *self.path.glob(f"*/{CONFIG}")]
        else:
            found = [path for path in self.path.rglob("*") if path.suffix in IDENTIFYING]
        return sorted(
            {path for path in found if path.is_file()}, key=lambda path: path.relative_to(self.path).as_posix()
        )

    def digest(self) -> str:
        """SHA-256 of names and contents of these files."""
        total = hashlib.sha256()
        for path in self.files():
            own = hashlib.sha256()
            with path.open("rb") as file:
                while chunk := file.read(CHUNK):
                    own.update(chunk)
            total.update(f"{path.relative_to(self.path).as_posix()}\0{own.hexdigest()}\n".encode())
        return total.hexdigest()

    def open(self) -> Encoder:
        """Load the encoder."""
        if self.kind == "onnx":
            from conal.text.onnx_encoder import OnnxEncoder

            return OnnxEncoder(self)
        return SentenceTransformerEncoder(self)

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


class SentenceTransformerEncoder:
    """A folder of sentence-transformers, run by that package.

    Weights must be safetensors, and modules those of the package itself: reading others could run code of whoever
    wrote the folder.
    """

    def __init__(self, folder: EncoderFolder) -> None:
        check_packages(("sentence_transformers",), "pip install sentence-transformers", folder)
        refuse_code(folder)
        from sentence_transformers import SentenceTransformer

        self.where = folder.path
        with refusing_errors(self.where, "cannot be loaded"):
            self._model = SentenceTransformer(
                str(real_path(folder.path)),
                device="cpu",
                local_files_only=True,
                trust_remote_code=False,
                model_kwargs={"use_safetensors": True},
            )

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """(n, d) embeddings."""
        with refusing_errors(self.where, "cannot encode these texts"):
            return np.asarray(self._model.encode(list(texts), show_progress_bar=False), dtype=np.float32)


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


def _document(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: is no valid JSON ({error}); copy the encoder again") from error


def refuse_code(folder: EncoderFolder) -> None:
    """Refuse files and modules that could run code when they are read."""
    foreign = [each["type"] for each in folder.modules() if not each["type"].startswith(OWN_MODULES)]
    if foreign:
        raise InputError(
            f"{folder.path / MODULES}: has the module {foreign[0]!r} with code of its own; use another encoder"
        )
    for path in sorted(folder.path.rglob("*")):
        is_unread = path.name == TRANSFORMERS_WEIGHTS and path.with_name("model.safetensors").is_file()
        if path.suffix.lower() in PICKLED and not is_unread:
            raise InputError(
                f"{path}: can run code when it is read; save the encoder with safetensors weights, and delete this file"
            )


def check_packages(names: Sequence[str], remedy: str, folder: EncoderFolder) -> None:
    """Refuse if an optional package is missing."""
    missing = [name.replace("_", "-") for name in names if find_spec(name) is None]
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        raise InputError(f"{folder.path}: needs {' and '.join(missing)}, which {verb} not installed; run: {remedy}")
