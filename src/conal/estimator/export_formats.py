"""Files that exported classifiers are written to: ONNX, and programs of ``torch.export``."""

from __future__ import annotations

import importlib.util
import io
import json
import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from torch.export import ExportedProgram

from conal.errors import InputError, examples

__all__ = [
    "BATCH",
    "FORMATS",
    "INPUT",
    "METADATA_FILE",
    "OUTPUT",
    "FloatArray",
    "Writer",
    "quiet_torch",
    "reason",
    "writer_for",
]

FloatArray = npt.NDArray[np.floating[Any]]

INPUT, OUTPUT, BATCH = "features", "probabilities", "batch"
"""Names of the input, of the output, and of their first dimension."""
METADATA_FILE = "conal.json"
"""Where a program of ``torch.export`` has its metadata: an extra file."""
MAX_ONNX = 2**31 - 2**24
"""Bytes of weights: protobuf, which ONNX files are made of, allows two gigabytes in all."""


class Writer:
    """A kind of file: how to write a program, and how to run what was written."""

    name: ClassVar[str]
    ending: ClassVar[str]
    needs: ClassVar[tuple[str, ...]] = ()

    def check_packages(self) -> None:
        """Refuse if an optional package is missing."""
        missing = [name for name in self.needs if importlib.util.find_spec(name) is None]
        if missing:
            raise InputError(
                f"export to {self.name} needs {' and '.join(missing)}, which "
                f"{'is' if len(missing) == 1 else 'are'} not installed; run: pip install 'conal[{self.name}]'"
            )

    def check_size(self, module: nn.Module) -> None:
        """Refuse a module that is too large for the format."""

    def write(self, program: ExportedProgram, metadata: dict[str, Any], path: Path) -> None:
        """Write the program and its metadata."""
        raise NotImplementedError

    def run(self, path: Path, batches: Sequence[FloatArray]) -> list[FloatArray]:
        """The probabilities of each batch, by what is in the file alone."""
        raise NotImplementedError


class OnnxWriter(Writer):
    """ONNX: one file for ONNX Runtime and others, in any language."""

    name, ending, needs = "onnx", ".onnx", ("onnx", "onnxruntime", "onnxscript")

    def check_size(self, module: nn.Module) -> None:
        """Protobuf limits the size of a file."""
        size = sum(tensor.nbytes for tensor in (*module.parameters(), *module.buffers()))
        if size > MAX_ONNX:
            raise InputError(
                f"the networks have {size:,} bytes, and an ONNX file can have two gigabytes; "
                "export to torch (--to torch)"
            )

    def write(self, program: ExportedProgram, metadata: dict[str, Any], path: Path) -> None:
        """Translate the program by torch's exporter; the metadata become ``metadata_props``, lists as JSON."""
        with quiet_torch():
            made = torch.onnx.export(program, dynamo=True, input_names=[INPUT], output_names=[OUTPUT], verbose=False)
        model = made.model_proto  # type: ignore[union-attr]
        _clean(model)
        for key, value in metadata.items():
            model.metadata_props.add(key=key, value=value if isinstance(value, str) else json.dumps(value))
        path.write_bytes(model.SerializeToString(deterministic=True))

    def run(self, path: Path, batches: Sequence[FloatArray]) -> list[FloatArray]:
        """By ONNX Runtime on the CPU."""
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1  # a few rows need no more
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        return [session.run([OUTPUT], {INPUT: batch})[0] for batch in batches]


class TorchWriter(Writer):
    """A program of ``torch.export``: needs torch, but no Python code of the network."""

    name, ending = "torch", ".pt2"

    def write(self, program: ExportedProgram, metadata: dict[str, Any], path: Path) -> None:
        """Save the program; the metadata are an extra file in it."""
        content = io.BytesIO()  # where a disk is full, torch's writer of files ends the process
        with quiet_torch():
            torch.export.save(program, content, extra_files={METADATA_FILE: json.dumps(metadata)})
        path.write_bytes(content.getbuffer())

    def run(self, path: Path, batches: Sequence[FloatArray]) -> list[FloatArray]:
        """By torch, from the file."""
        with quiet_torch(), torch.no_grad(), path.open("rb") as file:
            module = torch.export.load(file).module()
            return [module(torch.from_numpy(batch)).numpy() for batch in batches]


FORMATS: dict[str, Writer] = {writer.name: writer for writer in (OnnxWriter(), TorchWriter())}


def writer_for(path: Path, to: str | None) -> Writer:
    """The format of this name, or that of the file's ending; both must agree."""
    by_ending = {writer.ending: name for name, writer in FORMATS.items()}
    name = by_ending.get(path.suffix.lower()) if to is None else to
    if name not in FORMATS:
        wrong = f"{path}: has no known ending" if to is None else f"there is no format {examples([to])}"
        endings = " or ".join(f"{name!r} ({ending})" for ending, name in by_ending.items())
        raise InputError(f"{wrong}; export to={endings}")
    writer = FORMATS[name]
    if path.suffix.lower() != writer.ending:
        raise InputError(f"{path}: must end in {writer.ending} for export to {writer.name}; choose such a name")
    writer.check_packages()
    return writer


@contextmanager
def quiet_torch() -> Iterator[None]:
    """torch warns about its own internals and about packages that are not needed."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def reason(error: BaseException) -> str:
    """The first line of a message, which in torch goes on for pages."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0].rstrip(".:") if lines else type(error).__name__)[:300]


def _clean(model: Any) -> None:
    """Name the batch, and remove the exporter's notes: they contain source code and names of folders."""
    for part in (model, *_parts(model.graph), *(part for each in model.functions for part in _parts(each))):
        for field in ("metadata_props", "doc_string", "value_info"):  # the last are shapes, which runtimes infer
            if field in part.DESCRIPTOR.fields_by_name:
                part.ClearField(field)
    for value in (*model.graph.input, *model.graph.output):
        dimension = value.type.tensor_type.shape.dim[0]
        dimension.Clear()
        dimension.dim_param = BATCH


def _parts(graph: Any) -> Iterator[Any]:
    """A graph or a function of ONNX, and what is in it, also in the branches of conditions and the bodies of loops."""
    yield graph
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])):
                yield from _parts(inner)
    for name in ("input", "output", "initializer"):
        yield from (part for part in getattr(graph, name, ()) if not isinstance(part, str))
