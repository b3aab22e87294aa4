"""Embeddings by an ONNX model: a tokenizer, the network, and the mean of what it says about the tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from conal.errors import InputError
from conal.text.encoders import CONFIG, TOKENIZER, EncoderFolder, FloatArray, check_packages, refusing_errors

__all__ = ["OnnxEncoder", "pooled"]

NEEDED = ("onnxruntime", "tokenizers")
REMEDY = "pip install 'conal[encoder]'"
BATCH = 32
LONGEST = 512
"""Tokens of a text, where the folder does not say."""
MOST = 1_000_000
"""Tokens beyond which a limit means that there is none."""
SENTENCE = "sentence_embedding"
"""Name of an output that needs no pooling."""
POOLING = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
}
"""Flags of sentence-transformers, and what they mean here."""
POOLING_MODULE, NORMALIZE_MODULE = "Pooling", "Normalize"
KNOWN_MODULES = ("Transformer", POOLING_MODULE, NORMALIZE_MODULE)
INTEGERS = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}
TINY = 1e-12


class OnnxEncoder:
    """An ONNX model of token or sentence embeddings, run by onnxruntime on the CPU.

    Embeddings of tokens are averaged, unless the folder's ``modules.json`` names another pooling ("cls" or "max"), and
    normalised to length 1 if it says so. Long texts are cut off where the folder says, after 512 tokens otherwise.

    Parameters
    ----------
    folder : EncoderFolder
    """

    def __init__(self, folder: EncoderFolder) -> None:
        check_packages(NEEDED, REMEDY, folder)
        import onnxruntime
        from tokenizers import Tokenizer

        self.where = folder.path
        self.pooling, self.normalize = _steps(folder)
        with refusing_errors(folder.path, "cannot be loaded"):
            self._session = onnxruntime.InferenceSession(
                str(folder.path / str(folder.model)), providers=["CPUExecutionProvider"]
            )
            self._tokenizer = Tokenizer.from_file(str(folder.path / TOKENIZER))
            self._tokenizer.enable_truncation(_longest(folder, self._tokenizer.truncation))
        self._pad = int((self._tokenizer.padding or {}).get("pad_id", 0))
        self._tokenizer.no_padding()
        self._inputs = {found.name: INTEGERS.get(found.type) for found in self._session.get_inputs()}
        unknown = [name for name, kind in self._inputs.items() if name not in _GIVEN or kind is None]
        if unknown:
            raise InputError(
                f"{folder.path}: the model takes {unknown[0]!r}, which is unknown; expected {', '.join(_GIVEN)}"
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
        return result / np.maximum(np.linalg.norm(result, axis=1, keepdims=True), TINY) if self.normalize else result

    def _embedded(self, encodings: Sequence[Any]) -> Iterator[FloatArray]:
        for start in range(0, len(encodings), BATCH):
            some = encodings[start : start + BATCH]
            width = max(1, *(len(each.ids) for each in some))
            given = {
                name: _padded([getattr(each, _GIVEN[name]) for each in some], width, self._fill(name), kind)
                for name, kind in self._inputs.items()
            }
            with refusing_errors(self.where, "cannot encode these texts"):
                found = np.asarray(self._session.run([self._output], given)[0])
            if found.dtype.kind in "iu":
                found = found.astype(np.float64)
            is_number = found.dtype.kind == "f"
            if is_number and found.ndim == 3 and found.shape[:2] == (len(some), width):
                mask = _padded([each.attention_mask for each in some], width, 0, np.float32)
                found = pooled(found, mask, self.pooling)
            if not is_number or found.ndim != 2 or len(found) != len(some) or not np.isfinite(found).all():
                raise InputError(f"{self.where}: gives no finite embedding for each text; is it an encoder of texts?")
            yield np.asarray(found, dtype=np.float32)

    def _fill(self, name: str) -> int:
        return self._pad if name == "input_ids" else 0


_GIVEN = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
"""Inputs of a model, and where a tokenizer has them."""


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


def _padded(rows: Sequence[Sequence[int]], width: int, fill: int, kind: Any) -> npt.NDArray[Any]:
    made = np.full((len(rows), width), fill, dtype=kind)
    for k, row in enumerate(rows):
        made[k, : len(row)] = row
    return made


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
    chosen = chosen or [f"pooling_mode_{stated.get('pooling_mode', 'mean')}_tokens".replace("cls_tokens", "cls_token")]
    if len(chosen) != 1 or chosen[0] not in POOLING:
        raise InputError(
            f"{place}: pools tokens by {', '.join(chosen)}; conal pools by mean, cls or max: use another encoder"
        )
    return POOLING[chosen[0]]


def _longest(folder: EncoderFolder, truncation: dict[str, Any] | None) -> int:
    """Tokens of a text after which it is cut off."""
    limit = folder.settings(folder.path / "sentence_bert_config.json").get("max_seq_length")
    stated = [limit, (truncation or {}).get("max_length")]
    found = [min(int(length), MOST) for length in stated if isinstance(length, int) and length > 0]
    positions = folder.settings(folder.path / CONFIG).get("max_position_embeddings")
    return min(found) if found else min(LONGEST, positions if isinstance(positions, int) and positions > 0 else LONGEST)
