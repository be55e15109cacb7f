"""How many threads a conversion may use, and why.

The order: ``threads=`` of the call, then ``with threads(n)``, then `set_num_threads`, then LAYOUTPACK_NUM_THREADS,
then OpenMP's own settings (OMP_NUM_THREADS, or what the caller's other libraries set), then what CPU affinity and the
cgroup's quota leave. Only the default is capped by the quota.
"""

from __future__ import annotations

import contextvars
import math
import operator
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, SupportsIndex

from layoutpack import _engine

MAX_THREADS = 1024  # far above any machine; keeps a typing error from asking for a million stacks

# One thread up to this many bytes of output, and never more threads than bytes / BYTES_PER_THREAD: below that a
# second thread costs more than it moves.
SERIAL_BYTES = 512 * 1024
BYTES_PER_THREAD = 256 * 1024


class ThreadCount(NamedTuple):
    """A number of threads and where it came from."""

    number: int
    source: str


_context: contextvars.ContextVar[int | None] = contextvars.ContextVar("layoutpack_threads", default=None)


class _Process:
    """What belongs to this process: the number set by the program, and whether it is a forked child."""

    set_number: int | None = None
    forked = False


def _after_fork_in_child() -> None:
    # Workers of a server are forked so that each uses one core; a child that sets a number of its own is obeyed.
    _Process.forked = True
    _Process.set_number = None
    _quota.cache_clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


def as_thread_count(n: SupportsIndex) -> int:
    """The number as an int of at least 1."""
    if type(n) is int and 1 <= n <= MAX_THREADS:
        return n
    if isinstance(n, bool):
        raise TypeError("a number of threads must be an int, got a bool")
    try:
        number = operator.index(n)
    except TypeError:
        raise TypeError(f"a number of threads must be an int, got {n!r}") from None
    if number < 1:
        raise ValueError(f"a number of threads must be at least 1, got {number}")
    return min(number, MAX_THREADS)


def set_num_threads(n: SupportsIndex | None) -> None:
    """Set the number of threads of this process's conversions.

    Parameters
    ----------
    n : int or None
        Threads, at least 1. None takes an earlier setting back.

    Raises
    ------
    TypeError, ValueError
        If `n` is not a positive int.

    See Also
    --------
    threads : the same for a block of code, in its own context.

    Examples
    --------
    >>> import layoutpack as lp
    >>> lp.set_num_threads(1)
    >>> lp.get_num_threads()
    1
    >>> lp.set_num_threads(None)
    """
    _Process.set_number = None if n is None else as_thread_count(n)


def get_num_threads() -> int:
    """Number of threads in force here and now; a conversion uses no more than it has chunks of work, or CPUs.

    Returns
    -------
    int

    Examples
    --------
    >>> import layoutpack as lp
    >>> with lp.threads(1):
    ...     lp.get_num_threads()
    1
    """
    return thread_count().number


@contextmanager
def threads(n: SupportsIndex) -> Iterator[None]:
    """Use `n` threads inside a ``with`` block.

    The setting belongs to the context (`contextvars`): other threads and other asyncio tasks do not see it.

    Parameters
    ----------
    n : int
        Threads, at least 1.

    Raises
    ------
    TypeError, ValueError
        If `n` is not a positive int.

    Examples
    --------
    >>> import layoutpack as lp
    >>> with lp.threads(2):
    ...     y = lp.to_nc1hwc0([[[[1.0]]]], c0=4)
    """
    token = _context.set(as_thread_count(n))
    try:
        yield
    finally:
        _context.reset(token)


def thread_count() -> ThreadCount:
    """The number of threads for a call that states none, and its source."""
    number = _context.get()
    if number is not None:
        return ThreadCount(number, "threads()")
    if _Process.set_number is not None:
        return ThreadCount(_Process.set_number, "set_num_threads()")
    number = _from_environment(_engine.environment(b"LAYOUTPACK_NUM_THREADS"))
    if number is not None:
        return ThreadCount(number, "LAYOUTPACK_NUM_THREADS")
    if _Process.forked:
        return ThreadCount(1, "forked child: 1 by default")
    if not _engine.OPENMP:
        return ThreadCount(1, "built without OpenMP")
    cpus = affinity()
    openmp = _engine.openmp_max_threads()
    if openmp != cpus:
        return ThreadCount(min(openmp, MAX_THREADS), "OpenMP")
    quota = _quota()
    if quota is not None and quota < cpus:
        return ThreadCount(quota, "cgroup quota")
    return ThreadCount(cpus, "CPU affinity")


def thread_number(nbytes: int, threads: int | None, chunks: int) -> int:
    """How many threads a conversion gets that writes so many bytes in so many chunks."""
    if threads == 1 or chunks == 1:  # to ask for the CPUs costs a microsecond
        return 1
    if threads is None:
        if nbytes < SERIAL_BYTES:
            return 1
        threads = min(thread_count().number, nbytes // BYTES_PER_THREAD)
    return usable(threads)


def usable(threads: int) -> int:
    """The part of a wish for threads that makes sense: no more than CPUs, since more was measured to lose."""
    return min(threads, affinity())


def affinity() -> int:
    """Number of CPUs that this thread may run on."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


@lru_cache(maxsize=8)
def _from_environment(text: str) -> int | None:
    if not text.strip():
        return None
    try:
        return as_thread_count(int(text))
    except ValueError:
        warnings.warn(f"LAYOUTPACK_NUM_THREADS={text!r} is not a positive number and is ignored", stacklevel=4)
        return None


@lru_cache(maxsize=1)
def _quota() -> int | None:
    return cgroup_quota(Path("/"))


def cgroup_quota(root: Path) -> int | None:
    """CPUs that the cgroup's quota allows, rounded up; None without a quota.

    Reads cgroup v2 (``cpu.max``) and v1 (``cpu.cfs_quota_us``) below ``root/sys/fs/cgroup``, in the process's own
    group and all above it, since each may hold a quota.
    """
    try:
        entries = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return None
    limits = []
    mount = root / "sys/fs/cgroup"
    for entry in entries:
        _, _, rest = entry.partition(":")
        controllers, _, path = rest.partition(":")
        if not controllers:
            base, read = mount, _read_v2
        elif "cpu" in controllers.split(","):
            base, read = mount / "cpu", _read_v1
        else:
            continue
        group = base / path.lstrip("/")
        for folder in (group, *group.parents):
            limits.append(read(folder))
            if folder == base:
                break
    quotas = [limit for limit in limits if limit is not None]
    return max(1, math.ceil(min(quotas))) if quotas else None


def _read_v2(folder: Path) -> float | None:
    try:
        quota, period = (folder / "cpu.max").read_text().split()
        return int(quota) / int(period) if int(quota) > 0 else None
    except (OSError, ValueError, ZeroDivisionError):  # absent, "max", or not what the kernel writes
        return None


def _read_v1(folder: Path) -> float | None:
    try:
        quota = int((folder / "cpu.cfs_quota_us").read_text())
        period = int((folder / "cpu.cfs_period_us").read_text())
        return quota / period if quota > 0 else None
    except (OSError, ValueError, ZeroDivisionError):
        return None
