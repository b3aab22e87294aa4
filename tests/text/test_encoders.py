"""Encoders of texts: embeddings are what the folder's model says, and nothing in a folder can run code."""

from __future__ import annotations

import copy
import importlib.util
import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conal.errors import InputError
from conal.text import EncodedTexts, encoders
from conal.text.encoders import EncoderFolder, OnnxEncoder
from helpers.encoders import VECTORS, write, write_onnx_encoder

MISSING = [name for name in ("onnx", "onnxruntime", "tokenizers") if importlib.util.find_spec(name) is None]
needs_onnx = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")
TEXTS = ["purr", "the bark", "swim purr the the", "Unheard \ud800", *["bark"] * 40]


def vectors(text: str) -> Any:
    return np.array([VECTORS.get(word, VECTORS["[UNK]"]) for word in text.lower().replace("\ud800", "?").split()])


@needs_onnx
@pytest.mark.parametrize(
    ("pooling", "wanted"),
    [
        (None, lambda v: v.mean(0)),
        ("mean_tokens", lambda v: v.mean(0)),
        ("max_tokens", lambda v: v.max(0)),
        ("cls_token", lambda v: v[0]),
    ],
)
def test_embeddings_are_pooled_over_the_tokens_and_not_over_padding(
    pooling: str | None, wanted: Callable[[Any], Any], tmp_path: Path
) -> None:
    folder = write_onnx_encoder(tmp_path / "encoder", pooling=pooling)
    found = OnnxEncoder(EncoderFolder(folder)).encode(TEXTS)
    np.testing.assert_allclose(found, [wanted(vectors(text)) for text in TEXTS], rtol=1e-6)


@needs_onnx
def test_embeddings_have_length_one_and_texts_are_cut_off_where_the_folder_says_so(tmp_path: Path) -> None:
    folder = write_onnx_encoder(tmp_path / "encoder", normalize=True, longest=2)
    found = OnnxEncoder(EncoderFolder(folder)).encode(["purr bark swim swim"])
    mean = vectors("purr bark").mean(0)
    np.testing.assert_allclose(found, [mean / np.linalg.norm(mean)], rtol=1e-6)


@needs_onnx
def test_features_are_centred_and_zero_for_empty_texts(tmp_path: Path) -> None:
    folder = write_onnx_encoder(tmp_path / "encoder")
    made = EncodedTexts(folder)
    found = made.fit_transform(["purr", " ", "bark"])
    np.testing.assert_allclose(made.mean_, (1.0, 1.0, 0.0))
    np.testing.assert_allclose(found, [(1, -1, 1), (0, 0, 0), (-1, 1, -1)])
    np.testing.assert_allclose(made.transform(["swim", ""]), [(-3, -3, 0), (0, 0, 0)])
    assert made.transform([""]).shape == (1, 3)
    for copied in (copy.deepcopy(made), pickle.loads(pickle.dumps(made))):  # noqa: S301
        np.testing.assert_array_equal(copied.transform(TEXTS), made.transform(TEXTS))


@needs_onnx
def test_a_stored_model_takes_its_own_encoder_wherever_it_lies_and_no_other(tmp_path: Path) -> None:
    folder = write_onnx_encoder(tmp_path / "encoder")
    made = EncodedTexts(folder)
    made.fit_transform(TEXTS)
    tensors, document = made.state()
    assert str(tmp_path) not in str(document)
    restored = EncodedTexts.from_state(tensors, document)
    with pytest.raises(InputError, match=r"needs its encoder 'encoder'.*--set encoder=DIR"):
        restored.transform(["purr"])
    moved = folder.rename(tmp_path / "moved")
    np.testing.assert_array_equal(
        restored.attach(moved).transform(TEXTS), EncodedTexts.attach(made, moved).transform(TEXTS)
    )
    write(moved / "sentence_bert_config.json", {"max_seq_length": 1})
    with pytest.raises(InputError, match="is not the encoder 'encoder'"):
        restored.attach(moved)


@needs_onnx
def test_an_unknown_step_or_pooling_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="pools tokens by pooling_mode_lasttoken"):
        OnnxEncoder(EncoderFolder(write_onnx_encoder(tmp_path / "a", pooling="lasttoken")))
    folder = write_onnx_encoder(tmp_path / "b", normalize=True)
    write(folder / "modules.json", [{"type": "sentence_transformers.models.Dense", "path": "2_Dense"}])
    with pytest.raises(InputError, match="module 'Dense'"):
        OnnxEncoder(EncoderFolder(folder))
    write(folder / "modules.json", [{"type": "sentence_transformers.models.Pooling", "path": "../a/1_Pooling"}])
    with pytest.raises(InputError, match="outside of the folder"):
        OnnxEncoder(EncoderFolder(folder))
    (folder / "modules.json").unlink()
    (folder / "model.onnx").write_bytes(b"nothing")
    with pytest.raises(InputError, match=r"cannot be loaded .* is it an encoder of texts\?"):
        OnnxEncoder(EncoderFolder(folder))


def test_what_is_no_encoder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"there is no such folder.*nothing is downloaded"):
        EncoderFolder(tmp_path / "some-org" / "some-model")
    with pytest.raises(InputError, match=r"is no encoder; expected model\.onnx and tokenizer\.json"):
        EncoderFolder(tmp_path)


def test_missing_packages_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoders, "find_spec", lambda name: None)
    for name in ("model.onnx", "tokenizer.json"):
        (tmp_path / name).touch()
    with pytest.raises(InputError, match=r"needs onnxruntime and tokenizers; run: pip install 'conal\[encoder\]'"):
        OnnxEncoder(EncoderFolder(tmp_path))


def network(kind: str, folder: Path) -> None:
    """A model that runs, but is no encoder of these texts."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    rows, shape = (2, ("n", "t")) if kind == "few words" else (6, (1, 4) if kind == "one shape" else ("n", "t"))
    words = helper.make_tensor_value_info("input_ids", TensorProto.INT64, shape)
    tables = [numpy_helper.from_array(np.ones((rows, 3), dtype=np.float32), "table")]
    node, made = "Gather", helper.make_tensor_value_info("out", TensorProto.FLOAT, (*shape, 3))
    arguments: dict[str, Any] = {}
    if kind == "text":
        node, arguments, tables = "Cast", {"to": TensorProto.STRING}, []
        made = helper.make_tensor_value_info("out", TensorProto.STRING, shape)
    if kind == "sequence":
        node, made, tables = "SequenceConstruct", helper.make_tensor_sequence_value_info("out", 7, None), []
    inputs = [*(table.name for table in tables), "input_ids"]
    graph = helper.make_graph([helper.make_node(node, inputs, ["out"], **arguments)], "no", [words], [made], tables)
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "model.onnx"
    )


def loop(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(path.name)


def put(content: str, name: str, folder: Path) -> None:
    (folder / name).write_text(content)


POOLING = [{"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"}]
JSON_FILES = ("config.json", "sentence_bert_config.json", "modules.json", "1_Pooling/config.json")
CONTENTS = {
    "a list": "[3]",
    "a number": "3",
    "null": "null",
    "text": '"x"',
    "empty": "",
    "cut": "{",
    "deep": "[" * 10**5,
}
MALFORMED: dict[str, Callable[[Path], object]] = {
    **{f"{name}, {what}": partial(put, text, name) for name in JSON_FILES for what, text in CONTENTS.items()},
    "no UTF-8": lambda folder: (folder / "config.json").write_bytes(b'{"a": "\xe9"}'),
    "a path with a zero": lambda folder: write(folder / "modules.json", [POOLING[0] | {"path": "a\0"}]),
    "a long path": lambda folder: write(folder / "modules.json", [POOLING[0] | {"path": "x" * 5000}]),
    "a path that is none": lambda folder: write(folder / "modules.json", [POOLING[0] | {"path": [1]}]),
    "a cut model": lambda folder: (folder / "model.onnx").write_bytes((folder / "model.onnx").read_bytes()[:-20]),
    "an empty model": lambda folder: (folder / "model.onnx").write_bytes(b""),
    "an empty tokenizer": lambda folder: (folder / "tokenizer.json").write_bytes(b""),
    "a loop": lambda folder: loop(folder / "model.onnx"),
    **{kind: partial(network, kind) for kind in ("few words", "one shape", "text", "sequence")},
}


@needs_onnx
@pytest.mark.parametrize("what", MALFORMED)
def test_a_malformed_folder_is_refused(what: str, tmp_path: Path) -> None:
    folder = write_onnx_encoder(tmp_path / "encoder", pooling="mean_tokens")
    MALFORMED[what](folder)
    with pytest.raises(InputError, match=str(folder)):
        EncodedTexts(folder).fit_transform(["purr the", "bark", "swim the the purr"])


@needs_onnx
def test_a_limit_without_end_is_none(tmp_path: Path) -> None:
    folder = write_onnx_encoder(tmp_path / "encoder", longest=2**70)
    assert EncodedTexts(folder).fit_transform(["purr", "bark"]).shape == (2, 3)


@needs_onnx
@pytest.mark.parametrize("place", ["weights", "deep/er/weights.bin"])
def test_weights_in_other_files_belong_to_the_encoder(place: str, tmp_path: Path) -> None:
    """Whatever the file is called, and wherever it is below the model."""
    import onnx

    folder = write_onnx_encoder(tmp_path / "encoder")
    one_file = EncoderFolder(folder).digest()
    model = onnx.load(folder / "model.onnx")
    (folder / place).parent.mkdir(exist_ok=True, parents=True)
    onnx.save(model, folder / "model.onnx", save_as_external_data=True, location=place, size_threshold=0)
    made = EncodedTexts(folder)
    before = made.fit_transform(["purr", "bark"])
    tensors, document = made.state()
    restored = EncodedTexts.from_state(tensors, document)
    np.testing.assert_array_equal(restored.attach(folder).transform(["purr", "bark"]), before)
    weights = (folder / place).read_bytes()
    (folder / place).write_bytes(np.roll(np.frombuffer(weights, dtype=np.float32), 3).tobytes())
    with pytest.raises(InputError, match="is not the encoder 'encoder'"):
        restored.attach(folder)
    (folder / place).unlink()
    with pytest.raises(InputError, match="is not the encoder 'encoder'"):
        restored.attach(folder)
    onnx.save(onnx.load(write_onnx_encoder(tmp_path / "again") / "model.onnx"), folder / "model.onnx")
    assert EncoderFolder(folder).digest() == one_file  # as before, where there are no other files


@needs_onnx
def test_weights_outside_of_the_folder_are_refused(tmp_path: Path) -> None:
    import onnx

    folder = write_onnx_encoder(tmp_path / "encoder")
    model = onnx.load(folder / "model.onnx")
    for name in ("../weights", "/etc/passwd", "..\\weights"):
        tensor = model.graph.initializer[0]
        del tensor.external_data[:]
        tensor.data_location = onnx.TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value=name)
        (folder / "model.onnx").write_bytes(model.SerializeToString())
        with pytest.raises(InputError, match="cannot be loaded"):
            OnnxEncoder(EncoderFolder(folder))


@needs_onnx
def test_the_pooling_of_a_module_in_any_folder_belongs_to_the_encoder(tmp_path: Path) -> None:
    folder = write_onnx_encoder(tmp_path / "encoder")
    write(folder / "modules.json", [POOLING[0] | {"path": "a/b"}])
    (folder / "a").mkdir()
    write(folder / "a" / "b" / "config.json", {"pooling_mode_max_tokens": True})
    before = EncoderFolder(folder).digest()
    write(folder / "a" / "b" / "config.json", {"pooling_mode_cls_token": True})
    assert EncoderFolder(folder).digest() != before
