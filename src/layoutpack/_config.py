"""What this build and this machine are."""

from __future__ import annotations

from typing import Any

import numpy as np

from layoutpack import _conversion, _engine, _system, _threads


def show_config() -> dict[str, Any]:
    """Version, compiler, instruction sets, threads and caches, for reports and tests.

    Returns
    -------
    dict
        ``version``, ``numpy``, ``compiler``, ``openmp`` (the date of its specification, 0 without), ``dispatch``
        (instruction sets ``built``, ``available`` on this processor and ``chosen``), ``threads`` (``number`` of a large
        conversion called now, its ``source``, and the ``cpus`` it may use), ``caches`` (bytes by level),
        ``streaming_threshold`` (bytes of input and output from which stores bypass the caches).

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
        "caches": _system.cache_sizes(),
        "streaming_threshold": _conversion.STREAMING_THRESHOLD,
    }
