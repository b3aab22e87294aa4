"""Fitted estimators for use without conal: one torch module, or one file."""

from __future__ import annotations

import copy
import importlib.util
import io
import json
import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.export import ExportedProgram

from conal._files import atomic_file, check_file_place
from conal.errors import InputError, examples
from conal.io import FeatureTable
from conal.io.model_folder import names_to_json

if TYPE_CHECKING:
    from conal.estimator.classifier import CrowdClassifier


# Files that exported classifiers are written to: ONNX, and programs of ``torch.export``.

FloatArray = npt.NDArray[np.floating[Any]]

INPUT, OUTPUT, BATCH = "features", "probabilities", "batch"
"""Names of the input, of the output, and of their first dimension."""
METADATA_FILE = "conal.json"
"""Where a program of ``torch.export`` has its metadata: an extra file."""
MAX_ONNX = 2**31 - 2**24
"""Bytes of weights: protobuf, which ONNX files are made of, allows two gigabytes in all."""


def write_onnx(program: ExportedProgram, metadata: dict[str, Any], path: Path) -> None:
    """Translate the program by torch's exporter; the metadata become ``metadata_props``, lists as JSON."""
    size = sum(tensor.nbytes for tensor in program.state_dict.values())
    if size > MAX_ONNX:
        raise InputError(
            f"the networks have {size:,} bytes, and an ONNX file can have two gigabytes; "
            "export to torch (a file that ends in .pt2)"
        )
    with quiet_torch():
        made = torch.onnx.export(program, dynamo=True, input_names=[INPUT], output_names=[OUTPUT], verbose=False)
    model = made.model_proto  # type: ignore[union-attr]
    _clean(model)
    for key, value in metadata.items():
        model.metadata_props.add(key=key, value=value if isinstance(value, str) else json.dumps(value))
    path.write_bytes(model.SerializeToString(deterministic=True))


def run_onnx(path: Path, batches: Sequence[FloatArray]) -> list[FloatArray]:
    """The probabilities of each batch, by ONNX Runtime on the CPU."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # a few rows need no more
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return [session.run([OUTPUT], {INPUT: batch})[0] for batch in batches]


def write_torch(program: ExportedProgram, metadata: dict[str, Any], path: Path) -> None:
    """Save the program, which needs torch, but no Python code of the network; the metadata are an extra file in it."""
    content = io.BytesIO()  # where a disk is full, torch's writer of files ends the process
    with quiet_torch():
        torch.export.save(program, content, extra_files={METADATA_FILE: json.dumps(metadata)})
    path.write_bytes(content.getbuffer())


def run_torch(path: Path, batches: Sequence[FloatArray]) -> list[FloatArray]:
    """The probabilities of each batch, by torch from the file."""
    with quiet_torch(), torch.no_grad(), path.open("rb") as file:
        module = torch.export.load(file).module()
        return [module(torch.from_numpy(batch)).numpy() for batch in batches]


class Format(NamedTuple):
    """A kind of file: how to write a program, how to run what was written, and the optional packages for that."""

    name: str
    ending: str
    write: Callable[[ExportedProgram, dict[str, Any], Path], None]
    run: Callable[[Path, Sequence[FloatArray]], list[FloatArray]]
    needs: tuple[str, ...] = ()


FORMATS = {
    "onnx": Format("onnx", ".onnx", write_onnx, run_onnx, ("onnx", "onnxruntime", "onnxscript")),
    "torch": Format("torch", ".pt2", write_torch, run_torch),
}


def format_of(path: Path, to: str | None) -> Format:
    """The format of this name, or that of the file's ending; both must agree."""
    by_ending = {each.ending: name for name, each in FORMATS.items()}
    name = by_ending.get(path.suffix.lower()) if to is None else to
    if name not in FORMATS:
        wrong = f"{path}: has no known ending" if to is None else f"there is no format {examples([to])}"
        endings = " or ".join(f"{name!r} ({ending})" for ending, name in by_ending.items())
        raise InputError(f"{wrong}; export to={endings}")
    found = FORMATS[name]
    if path.suffix.lower() != found.ending:
        raise InputError(f"{path}: must end in {found.ending} for export to {name}; choose such a name")
    missing = [package for package in found.needs if importlib.util.find_spec(package) is None]
    if missing:
        raise InputError(
            f"export to {name} needs {' and '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not "
            f"installed; run: pip install 'conal[{name}]'"
        )
    return found


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


# Fitted estimators for use without conal: one torch module, or one file.

N_ROWS = 16
"""Random rows on which an export is compared with ``predict_proba``: one alone, then the others."""
TOLERANCE = 1e-5
"""The largest difference of a probability between a file and ``predict_proba``."""


class Exported(NamedTuple):
    """What was written, and how far it differs from ``predict_proba`` on random rows."""

    path: Path
    format: str
    metadata: dict[str, Any]
    rows: int
    largest_difference: float


def to_torch(fitted: CrowdClassifier, *, features_only: bool = False) -> nn.Module:
    """A copy of the trained networks as one module; see :meth:`CrowdClassifier.to_torch`."""
    check_text_choice(fitted, features_only)
    module = copy.deepcopy(fitted.model_.predictor()).cpu().eval().requires_grad_(False)
    for tensor in (*module.parameters(), *module.buffers()):
        tensor.data = tensor.detach().clone()  # networks that were trained as one share memory
    with torch.no_grad():
        rows = random_rows(fitted)
        _compare(fitted, module(torch.from_numpy(rows)).numpy(), rows, "the module")
    return module


def export(
    fitted: CrowdClassifier,
    path: str | PathLike[str],
    to: str | None = None,
    *,
    features_only: bool = False,
    overwrite: bool = False,
) -> Exported:
    """Write a file that predicts without conal; see :meth:`CrowdClassifier.export`."""
    place = Path(path)
    kind = format_of(place, to)
    check_file_place(place, overwrite=overwrite)
    module = to_torch(fitted, features_only=features_only)
    metadata = describe(fitted)
    program = _program(module, torch.zeros(2, *fitted.instance_shape_, dtype=fitted.model_.scaler.dtype))
    rows = random_rows(fitted)
    with atomic_file(place) as temporary:
        kind.write(program, metadata, temporary)
        found = kind.run(temporary, [rows[:1], rows[1:]])  # two sizes: the batch must not be fixed
        difference = _compare(fitted, np.concatenate(found), rows, f"{place}: the file")
    return Exported(place, kind.name, metadata, len(rows), difference)


def describe(fitted: CrowdClassifier) -> dict[str, Any]:
    """What users of a file need to know, as plain data."""
    from conal import __version__

    return {
        "conal_version": __version__,
        "method": fitted.method,
        "classes": names_to_json(fitted.classes_),
        "input": INPUT,
        "input_type": str(fitted.model_.scaler.dtype).removeprefix("torch."),
        "output": OUTPUT,
        "takes": "features" if fitted.text_features_ is None else "text features",
        "n_features": fitted.n_features_in_,
        "instance_shape": list(fitted.instance_shape_),
        "feature_names": list(getattr(fitted, "feature_names_in_", ())),
    }


def check_text_choice(fitted: CrowdClassifier, features_only: bool) -> None:
    """Texts are made into features by conal's own code, which no export contains: the user must know that."""
    if fitted.text_features_ is None:
        if features_only:
            raise InputError(
                "features_only=True (--features-only) is for models of texts; this one was trained on features, so "
                "leave it out"
            )
        return
    if not features_only:
        raise InputError(
            "the model takes texts, and what makes features of them (terms and SVD) is not a part of "
            "the exported classifier. With features_only=True (--features-only), only the classifier of these "
            f"{fitted.n_features_in_:,} features is exported; compute them by "
            "conal.load(folder).text_features_.transform(texts)"
        )


def random_rows(fitted: CrowdClassifier) -> FloatArray:
    """Instances about as far apart as those that the model was trained on, from its scaling and in its precision."""
    scaler = fitted.model_.scaler
    z = np.random.default_rng(0).normal(size=(N_ROWS, *fitted.instance_shape_))
    x = torch.from_numpy(z) / scaler.factor.double() + scaler.shift.double()
    rows: FloatArray = (x.clamp(min=0).square() if scaler.root else x).to(scaler.dtype).cpu().numpy()
    return rows


def _compare(fitted: CrowdClassifier, found: FloatArray, rows: FloatArray, what: str) -> float:
    wanted = fitted.predict_proba(FeatureTable(rows, checked=True))
    difference = float(np.abs(found - wanted).max()) if found.shape == wanted.shape else float("nan")
    if not difference <= TOLERANCE:
        raise InputError(
            f"{what} does not give what predict_proba gives: probabilities of random rows differ by {difference:.2g}, "
            f"which is more than {TOLERANCE:g}. A network cannot be exported if it draws random numbers in evaluation "
            "mode, or if its forward depends on anything but its input"
        )
    return difference


def _program(module: nn.Module, example: Tensor) -> ExportedProgram:
    """The module's computation for any number of instances, without the Python code that it came from."""
    batch = torch.export.Dim(BATCH)
    problems: list[str] = []
    for strict in (False, True):  # the second reads Python code, and understands len(x) of a batch
        try:
            with quiet_torch(), torch.no_grad():
                program = torch.export.export(module, (example,), dynamic_shapes=({0: batch},), strict=strict)
        except Exception as error:  # whatever the user's network, or torch, raises
            problems.append(reason(error))
        else:
            return _without_paths(program)
    raise InputError(
        f"the network cannot be exported by torch.export: {problems[0]}. Its forward must be made of torch operations, "
        "must not decide by the values of tensors, and must take any number of instances"
    )


def _without_paths(program: ExportedProgram) -> ExportedProgram:
    """torch notes the source lines of every operation, with the names of folders; files go to strangers."""
    for part in program.graph_module.modules():
        for node in part.graph.nodes if isinstance(part, torch.fx.GraphModule) else ():
            node.meta.pop("stack_trace", None)
    return program
