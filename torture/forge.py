"""Forged model folders: what an attacker, or a bad disk, can do to the files of a model."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torture.mutate import break_json
from torture.odd import odd_json

__all__ = ["apply", "random_changes", "resign"]

Change = dict[str, Any]
PATHS = [
    "../secret/labels.csv",
    "../secret",
    "/etc/passwd",
    "..",
    ".",
    "",
    "a/b.csv",
    "labels.csv\x00",
    "LABELS.CSV",
    "~/x.csv",
    "C:\\x.csv",
]
SIZES = [10**9, 200_000_000, 2**31, 2**63, 0, -1, 10**30, 1.5, "3", None, [200_000_000], [10**6, 10**6], True]
WEIGHTS, CONFIG = "model.safetensors", "config.json"
DIGESTS = ("digests", "documents_sha256")
"""Where the configuration has digests of files, in folders of this version and of the first."""


def random_changes(folder: Path, rng: random.Random) -> list[Change]:
    """One or two changes to the files of a folder, as plain data."""
    return [rng.choice(MAKERS)(folder, rng) for _ in range(rng.choice([1, 1, 2]))]


def apply(changes: list[Change], folder: Path) -> None:
    """Make the changes; one that no longer applies, because of another, is left out."""
    for change in changes:
        touched = [change[key] for key in ("file", "other") if key in change]
        if change["change"] != "link" and not all(_is_plain(folder / name) for name in touched):
            continue
        try:
            APPLIED[change["change"]](folder, change)
        except (OSError, ValueError, LookupError, ArithmeticError, TypeError, struct.error):
            continue


def _is_plain(path: Path) -> bool:
    """Whether a path is a file of its own: what a link leads to is not the folder's."""
    return path.is_file() and not path.is_symlink()


def resign(folder: Path) -> None:
    """Compute all digests anew, as anybody can: they protect from accidents, not from people."""
    from conal.io.model_folder import digest_of_json

    if not _is_plain(folder / CONFIG):
        return
    try:
        config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
        for key, value in config.items():
            if key in DIGESTS and isinstance(value, dict):
                config[key] = {name: _digest(folder / name) or old for name, old in value.items()}
        config.pop("config_sha256", None)
        config["config_sha256"] = digest_of_json(config)
        (folder / CONFIG).write_text(json.dumps(config), encoding="utf-8")
    except (OSError, ValueError, AttributeError, TypeError, RecursionError):
        return


def _digest(path: Path) -> str | None:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None
    except OSError:
        return None


# ---------------------------------------------------------------- what to change


def _files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.is_file())


def _some_file(folder: Path, rng: random.Random) -> str:
    return rng.choice(_files(folder))


def _flip(folder: Path, rng: random.Random) -> Change:
    name = _some_file(folder, rng)
    size = max(1, (folder / name).stat().st_size)
    return {"change": "flip", "file": name, "byte": rng.randrange(size), "bit": rng.randrange(8)}


def _cut(folder: Path, rng: random.Random) -> Change:
    return {"change": "cut", "file": _some_file(folder, rng), "share": rng.choice([0, 0.5, rng.random(), 2])}


def _move(folder: Path, rng: random.Random) -> Change:
    return {
        "change": rng.choice(["swap", "remove", "folder"]),
        "file": _some_file(folder, rng),
        "other": _some_file(folder, rng),
    }


def _link(folder: Path, rng: random.Random) -> Change:
    target = rng.choice(["../secret/{}", "../secret/passwd", "../secret", "/etc/passwd", "{}", "/dev/zero", "."])
    name = rng.choice([*_files(folder), "report.html"])
    return {"change": "link", "file": name, "to": target.format(name)}


def _edit(folder: Path, rng: random.Random) -> Change:
    name = rng.choice([name for name in _files(folder) if name.endswith(".json")])
    value = json.loads((folder / name).read_text(encoding="utf-8"))
    return {"change": "write", "file": name, "value": break_json(value, rng)}


def _parameter(folder: Path, rng: random.Random) -> Change:
    """A value of the configuration that says how much to allocate, or how often to loop."""
    config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    names = [*config["parameters"], *(["hidden", "ensemble", "epochs", "batch_size"] * 3)]
    if rng.random() < 0.7:
        config["parameters"][rng.choice(names)] = rng.choice(SIZES)
    else:
        config[rng.choice(["instance_shape", "n_tasks_trained_on", "classes", "annotator_ids", "feature_names"])] = (
            rng.choice([*SIZES, [odd_json(rng) for _ in range(3)], list(range(300))])
        )
    return {"change": "write", "file": CONFIG, "value": config}


def _listed(folder: Path, rng: random.Random) -> Change:
    """A file name of the configuration that points elsewhere."""
    config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    files = config.get("files", [])
    path = rng.choice(PATHS)
    if isinstance(files, list) and files:
        files[rng.randrange(len(files))] = path
    for key, value in config.items():
        if key in DIGESTS and isinstance(value, dict) and rng.random() < 0.5:
            value[path] = "0" * 64
    return {"change": "write", "file": CONFIG, "value": config}


def _tensor(folder: Path, rng: random.Random) -> Change:
    """A shape, a type or an offset in the header of the weights."""
    (size,) = struct.unpack("<Q", (folder / WEIGHTS).read_bytes()[:8])
    header = json.loads((folder / WEIGHTS).read_bytes()[8 : 8 + size])
    name = rng.choice([name for name in header if name != "__metadata__"])
    what = rng.choice(["shape", "dtype", "data_offsets", "name", "size"])
    if what == "name":
        header[rng.choice(["x", "", "members.9.w", "text.components"])] = header.pop(name)
    elif what == "size":
        return {"change": "header", "file": WEIGHTS, "size": rng.choice([0, 2**31, 2**63, 1]), "value": None}
    else:
        choices: dict[str, list[Any]] = {
            "shape": [[10**12], [2**40, 2**40], [], [0], [-1], [1, 1]],
            "dtype": ["F64", "I64", "BOOL", "F16", "X"],
        }
        header[name][what] = rng.choice(choices.get(what, [[0, 10**12], [8, 4], [0, 0], [0, 4]]))
    return {"change": "header", "file": WEIGHTS, "size": None, "value": header}


def _cell(folder: Path, rng: random.Random) -> Change:
    tables = [name for name in _files(folder) if name.endswith(".csv")]
    if not tables:
        return _flip(folder, rng)
    name = rng.choice(tables)
    rows = [line.split(",") for line in (folder / name).read_text(encoding="utf-8").splitlines()]
    row = rng.choice(rows)
    row[rng.randrange(len(row))] = rng.choice(
        ["", "nan", "inf", "-1", "x", "1e400", '"', "0.5", "99999999999999999999"]
    )
    return {"change": "text", "file": name, "text": "\n".join(",".join(row) for row in rows) + "\n"}


MAKERS: list[Callable[[Path, random.Random], Change]] = [
    _flip, _flip, _flip, _cut, _move, _link, _edit, _edit, _edit, _parameter, _parameter, _listed, _tensor, _cell,
]  # fmt: skip


# ---------------------------------------------------------------- how to change it


def _do_flip(folder: Path, change: Change) -> None:
    data = bytearray((folder / change["file"]).read_bytes())
    data[change["byte"] % len(data)] ^= 1 << change["bit"]
    (folder / change["file"]).write_bytes(data)


def _do_cut(folder: Path, change: Change) -> None:
    data = (folder / change["file"]).read_bytes()
    (folder / change["file"]).write_bytes((data * 2)[: int(change["share"] * len(data))])


def _do_swap(folder: Path, change: Change) -> None:
    one, two = folder / change["file"], folder / change["other"]
    first, second = one.read_bytes(), two.read_bytes()
    one.write_bytes(second)
    two.write_bytes(first)


def _do_remove(folder: Path, change: Change) -> None:
    (folder / change["file"]).unlink()


def _do_folder(folder: Path, change: Change) -> None:
    (folder / change["file"]).unlink()
    (folder / change["file"]).mkdir()


def _do_link(folder: Path, change: Change) -> None:
    (folder / change["file"]).unlink(missing_ok=True)
    os.symlink(change["to"], folder / change["file"])


def _do_write(folder: Path, change: Change) -> None:
    text = json.dumps(change["value"])
    (folder / change["file"]).write_text(text, encoding="utf-8")


def _do_text(folder: Path, change: Change) -> None:
    (folder / change["file"]).write_text(change["text"], encoding="utf-8")


def _do_header(folder: Path, change: Change) -> None:
    data = (folder / change["file"]).read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    if change["value"] is None:
        (folder / change["file"]).write_bytes(struct.pack("<Q", change["size"]) + data[8:])
        return
    header = json.dumps(change["value"]).encode()
    (folder / change["file"]).write_bytes(struct.pack("<Q", len(header)) + header + data[8 + size :])


APPLIED: dict[str, Callable[[Path, Change], None]] = {
    "flip": _do_flip,
    "cut": _do_cut,
    "swap": _do_swap,
    "remove": _do_remove,
    "folder": _do_folder,
    "link": _do_link,
    "write": _do_write,
    "text": _do_text,
    "header": _do_header,
}


def make_secret(folder: Path, model: Path) -> Path:
    """Files outside of the model folder, with the names of its files and other content."""
    secret = folder / "secret"
    shutil.copytree(model, secret)
    for path in secret.iterdir():
        data = path.read_bytes()
        path.write_bytes(data.replace(b"0", b"1").replace(b"5", b"6") if path.suffix == ".csv" else data + b" ")
    (secret / "passwd").write_text("root:x:0:0\n", encoding="utf-8")
    return secret
