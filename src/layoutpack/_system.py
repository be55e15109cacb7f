"""What the operating system tells of the machine."""

from __future__ import annotations

import os
import warnings
from pathlib import Path


def cache_sizes(root: Path = Path("/sys/devices/system/cpu/cpu0/cache")) -> dict[str, int]:
    """Bytes of the data caches by level ("L1", "L2", "L3"), as far as the system tells them."""
    sizes = {}
    for folder in sorted(root.glob("index*")):
        try:
            kind, level, size = ((folder / name).read_text().strip() for name in ("type", "level", "size"))
            if kind != "Instruction":
                sizes[f"L{level}"] = int(size.rstrip("KM")) * {"K": 1024, "M": 1024**2}.get(size[-1], 1)
        except (OSError, ValueError, IndexError):
            continue
    return sizes


def streaming_threshold() -> int:
    """Bytes from which stores bypass the caches: LAYOUTPACK_STREAMING_THRESHOLD, or half the largest cache."""
    text = os.environ.get("LAYOUTPACK_STREAMING_THRESHOLD", "").strip()
    if text:
        try:
            number = int(text)
        except ValueError:
            number = -1
        if number >= 0:
            return number
        warnings.warn(f"LAYOUTPACK_STREAMING_THRESHOLD={text!r} is not a number of bytes and is ignored", stacklevel=2)
    return max(cache_sizes().values(), default=32 << 20) // 2
