"""Encoders of texts: local folders with a model that makes an embedding of a text, and what identifies them.

No encoder is ever downloaded, and none is unpickled: a folder holds an ONNX model, or safetensors weights.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from conal.errors import InputError

__all__ = ["Encoder", "EncoderFolder", "SentenceTransformerEncoder", "check_packages"]

FloatArray = npt.NDArray[np.float32]

MODEL_PLACES = ("model.onnx", "onnx/model.onnx")
"""Where an ONNX model can be, within the folder."""
TOKENIZER, MODULES = "tokenizer.json", "modules.json"
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
        return self.path.resolve().name

    def files(self) -> list[Path]:
        """All files that decide about embeddings, in a fixed order."""
        if self.kind == "onnx":
            model = self.path / str(self.model)
            parts = [path for path in model.parent.iterdir() if path.name.startswith(f"{model.name}")]
            found = [*parts, self.path / TOKENIZER, *self.path.glob("*.json"), *self.path.glob("*/config.json")]
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

    def document(self, name: str) -> Any:
        """A JSON file of the folder; an empty object if there is none."""
        path = self.path / name
        if not path.is_file():
            return {}
        try:
            return json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise InputError(f"{path}: is no valid JSON ({error}); copy the encoder again") from error

    def modules(self) -> list[dict[str, Any]]:
        """The steps of a sentence-transformers model, each with its type and folder; none if they are not stated."""
        found = self.document(MODULES)
        listed = found if isinstance(found, list) else []
        if not all(isinstance(each, dict) and isinstance(each.get("type"), str) for each in listed):
            raise InputError(f"{self.path / MODULES}: must list modules with a type; copy the encoder again")
        return listed


class SentenceTransformerEncoder:
    """A folder of sentence-transformers, run by that package.

    Weights must be safetensors, and modules those of the package itself: reading others could run code of whoever
    wrote the folder.
    """

    def __init__(self, folder: EncoderFolder) -> None:
        check_packages(("sentence_transformers",), "pip install sentence-transformers", folder)
        refuse_code(folder)
        from sentence_transformers import SentenceTransformer

        self._model = SentenceTransformer(
            str(folder.path.resolve()),
            device="cpu",
            local_files_only=True,
            trust_remote_code=False,
            model_kwargs={"use_safetensors": True},
        )

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """(n, d) embeddings."""
        return np.asarray(self._model.encode(list(texts), show_progress_bar=False), dtype=np.float32)


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
