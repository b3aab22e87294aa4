"""Tiny encoders of texts: a vector for every word, and a network that looks it up."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import numpy.typing as npt

__all__ = ["VECTORS", "write_onnx_encoder"]

VECTORS = {
    "[PAD]": (9.0, 9.0, 9.0),  # shows up wherever padding is averaged too
    "[UNK]": (0.0, 0.0, 0.0),
    "purr": (2.0, 0.0, 1.0),
    "bark": (0.0, 2.0, -1.0),
    "swim": (-2.0, -2.0, 0.0),
    "the": (0.1, 0.1, 0.1),
}


def write_onnx_encoder(folder: Path, *, pooling: str | None = None, normalize: bool = False, longest: int = 0) -> Path:
    """A folder with model.onnx and tokenizer.json; with ``modules.json`` if anything of it is stated."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    folder.mkdir(parents=True)
    tokenizer = Tokenizer(models.WordLevel({word: k for k, word in enumerate(VECTORS)}, unk_token="[UNK]"))  # noqa: S106
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    table: npt.NDArray[np.float32] = np.array(list(VECTORS.values()), dtype=np.float32)
    words = [helper.make_tensor_value_info(n, TensorProto.INT64, ["n", "t"]) for n in ("input_ids", "attention_mask")]
    made = helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["n", "t", 3])
    look_up = helper.make_node("Gather", ["table", "input_ids"], ["last_hidden_state"])
    graph = helper.make_graph([look_up], "encoder", words, [made], [numpy_helper.from_array(table, "table")])
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "model.onnx"
    )
    if pooling is not None or normalize:
        kinds = ["Transformer", "Pooling", *(["Normalize"] if normalize else [])]
        places = ["", "1_Pooling", "2_Normalize"]
        modules = [
            {"idx": k, "name": str(k), "path": places[k], "type": f"sentence_transformers.models.{kind}"}
            for k, kind in enumerate(kinds)
        ]
        write(folder / "modules.json", modules)
        modes = ("mean_tokens", "cls_token", "max_tokens", "lasttoken")
        write(
            folder / "1_Pooling" / "config.json", {f"pooling_mode_{m}": m == (pooling or "mean_tokens") for m in modes}
        )
    if longest:
        write(folder / "sentence_bert_config.json", {"max_seq_length": longest})
    return folder


def write(path: Path, content: object) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")
