"""What this build and this machine are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from layoutpack import _engine, _threads


def show_config() -> dict[str, Any]:
    """Version, compiler, instruction sets, threads and caches, for reports and tests.

    Returns
    -------
    dict
        ``version``, ``numpy``, ``compiler``, ``openmp`` (the date of its specification, 0 without), ``dispatch``
        (instruction sets ``built``, ``available`` on this processor and ``chosen``), ``threads`` (``number`` of a large
        conversion called now, its ``source``, and the ``cpus`` it may use), ``caches`` (bytes by level),
        ``streaming_threshold`` (bytes from which stores bypass the caches, None: never).

    Examples
    --------
    >>> import layoutpack as lp
    >>> lp.show_config()["dispatch"]["chosen"] in lp.show_config()["dispatch"]["available"]
    True
    """
    from layoutpack import __version__

    count = _threads.thread_count()
    return {
        "version": __version__,
        "numpy": np.__version__,
        "compiler": _engine.COMPILER,
        "openmp": _engine.OPENMP,
        "dispatch": {
            "built": _engine.isa_built(),
            "available": _engine.isa_available(),
            "chosen": _engine.isa_chosen(),
        },
        "threads": {"number": count.number, "source": count.source, "cpus": _threads.affinity()},
        "caches": cache_sizes(),
        "streaming_threshold": None,
    }


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
