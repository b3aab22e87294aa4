"""Model folders as somebody else could have made them: changed, with digests that fit."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

__all__ = ["flip_bit", "sign"]


def sign(folder: Path, **changes: Any) -> None:
    """Change the configuration, and give it and all files the digests of what they are now."""
    path = folder / "config.json"
    config: dict[str, Any] = {**json.loads(path.read_text(encoding="utf-8")), **changes}
    config.pop("config_sha256", None)
    if "digests" in config and "digests" not in changes:
        present = [name for name in config["digests"] if (folder / name).is_file()]
        config["digests"] |= {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in present}
    canonical = json.dumps(config, sort_keys=True, ensure_ascii=False).encode("utf-8", "surrogatepass")
    config["config_sha256"] = hashlib.sha256(canonical).hexdigest()
    path.write_text(json.dumps(config), encoding="utf-8")


def flip_bit(path: Path, at: int, bit: int = 0) -> None:
    """Change one bit of a file, as a bad disk does."""
    content = bytearray(path.read_bytes())
    content[at] ^= 1 << bit
    path.write_bytes(bytes(content))
