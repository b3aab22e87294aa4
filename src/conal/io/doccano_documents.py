"""Documents with a label, which doccano imports as JSON Lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from conal.errors import InputError
from conal.io.annotation_file import AnnotationFile
from conal.io.predictions import MODEL, Predictions
from conal.io.texts import texts_of

__all__ = ["doccano_documents"]


def doccano_documents(file: AnnotationFile, predictions: Predictions) -> Iterator[dict[str, Any]]:
    """``text`` and ``label``; doccano keeps everything else as the document's metadata."""
    if file.data is None:
        raise InputError(f"{file.path}: contains no texts, which doccano needs; pass an export with the texts")
    table = texts_of(file.data, text=None, where=str(file.path))
    names = [] if table.ids is None else table.ids.tolist()
    texts = dict(zip(map(str, names), table.texts, strict=True))
    for name, prediction in predictions.items():
        about = {"task": name, "probability": prediction.score}
        asked = {} if prediction.source == MODEL else {"source": prediction.source}
        yield {"text": texts.get(str(name), ""), "label": [str(prediction.label)], **about, **asked}
