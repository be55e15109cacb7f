"""How many threads, whose threads, and what happens to them: settings, forks, signals, many callers at once."""

import asyncio
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import layoutpack as lp
from layoutpack import _system, _threads

LIMIT = 20  # seconds within which nothing may hang


@pytest.fixture
def big(rng):
    """An array that several threads convert, and its result."""
    x = rng.integers(0, 1 << 16, (8, 70, 56, 56)).astype(np.uint16)
    return x, lp.to_nc1hwc0(x, threads=1)


@pytest.fixture(autouse=True)
def clean_settings(monkeypatch):
    monkeypatch.delenv("LAYOUTPACK_NUM_THREADS", raising=False)
    lp.set_num_threads(None)
    yield
    lp.set_num_threads(None)


def run_python(code, **environment):
    """Run a program in a fresh interpreter; it must end within the limit."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )


PRELUDE = """
import os, sys, threading, numpy as np, layoutpack as lp
x = np.arange(8 * 70 * 56 * 56, dtype=np.uint16).reshape(8, 70, 56, 56)
want = lp.to_nc1hwc0(x, threads=1)
def good(threads=2):
    return bool((lp.to_nc1hwc0(x, threads=threads) == want).all())
def in_child(work):
    pid = os.fork()
    if not pid:
        os._exit(0 if work() else 1)
    return os.waitpid(pid, 0)[1] == 0
"""


# ---------------------------------------------------------------------------------------------- settings


def test_order_of_settings(monkeypatch):
    if not lp.show_config()["openmp"]:
        monkeypatch.setattr(_threads._engine, "OPENMP", 1)
    default = lp.show_config()["threads"]
    assert default["number"] == lp.get_num_threads() >= 1
    monkeypatch.setenv("LAYOUTPACK_NUM_THREADS", "7")
    assert _threads.thread_count() == (7, "LAYOUTPACK_NUM_THREADS")
    lp.set_num_threads(5)
    assert _threads.thread_count() == (5, "set_num_threads()")
    with lp.threads(3):
        assert _threads.thread_count() == (3, "threads()")
        with lp.threads(2):
            assert lp.get_num_threads() == 2
        assert lp.get_num_threads() == 3
    assert lp.get_num_threads() == 5
    lp.set_num_threads(None)
    assert lp.get_num_threads() == 7


@pytest.mark.parametrize("text", ["0", "-2", "many", "1.5"])
def test_a_bad_variable_warns_and_is_ignored(monkeypatch, text):
    monkeypatch.setenv("LAYOUTPACK_NUM_THREADS", text)
    with pytest.warns(UserWarning, match="LAYOUTPACK_NUM_THREADS"):
        assert lp.get_num_threads() >= 1


@pytest.mark.parametrize("n", [0, -1, 1.5, "2", None, True])
def test_bad_numbers(n):
    with pytest.raises((TypeError, ValueError), match="number of threads"):
        lp.to_nc1hwc0(np.zeros((1, 1, 1, 1)), threads=n) if n is not None else lp.threads(n).__enter__()
    with pytest.raises((TypeError, ValueError), match="number of threads"):
        lp.threads(n).__enter__()


def test_threads_belongs_to_the_context():
    seen = {}

    async def task(name, n):
        with lp.threads(n):
            await asyncio.sleep(0)
            seen[name] = lp.get_num_threads()

    async def main():
        await asyncio.gather(task("a", 3), task("b", 4))

    asyncio.run(main())
    with lp.threads(6):
        thread = threading.Thread(target=lambda: seen.update(other=lp.get_num_threads()))
        thread.start()
        thread.join()
    assert seen == {"a": 3, "b": 4, "other": lp.get_num_threads()}


def write(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.mark.parametrize(
    ("files", "cpus"),
    [
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "200000 100000\n"}, 2),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "150000 100000\n"}, 2),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "50000 100000\n"}, 1),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000\n"}, None),
        ({"proc/self/cgroup": "0::/\n"}, None),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "nonsense\n"}, None),
        (
            {
                "proc/self/cgroup": "0::/a/b\n",
                "sys/fs/cgroup/a/b/cpu.max": "max 100000\n",
                "sys/fs/cgroup/a/cpu.max": "300000 100000\n",
                "sys/fs/cgroup/cpu.max": "800000 100000\n",
            },
            3,
        ),
        (
            {
                "proc/self/cgroup": "5:cpuacct,cpu:/x\n3:memory:/x\n",
                "sys/fs/cgroup/cpu/x/cpu.cfs_quota_us": "400000\n",
                "sys/fs/cgroup/cpu/x/cpu.cfs_period_us": "100000\n",
            },
            4,
        ),
        (
            {
                "proc/self/cgroup": "5:cpu:/\n",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            },
            None,
        ),
        ({}, None),
    ],
)
def test_cgroup_quota(tmp_path, files, cpus):
    assert _threads.cgroup_quota(write(tmp_path, files)) == cpus


def test_cache_sizes(tmp_path):
    write(
        tmp_path,
        {
            "index0/type": "Data\n",
            "index0/level": "1\n",
            "index0/size": "48K\n",
            "index1/type": "Instruction\n",
            "index1/level": "1\n",
            "index1/size": "32K\n",
            "index2/type": "Unified\n",
            "index2/level": "2\n",
            "index2/size": "2M\n",
            "index3/type": "Unified\n",
        },
    )
    assert _system.cache_sizes(tmp_path) == {"L1": 48 << 10, "L2": 2 << 20}
    assert _system.cache_sizes(tmp_path / "nowhere") == {}


def test_isa_variable():
    chosen = lp.show_config()["dispatch"]
    assert chosen["chosen"] in chosen["available"]
    assert set(chosen["available"]) <= set(chosen["built"])
    for isa in chosen["available"]:
        done = run_python("import layoutpack as lp; print(lp.show_config()['dispatch']['chosen'])", LAYOUTPACK_ISA=isa)
        assert done.stdout.strip() == isa
    done = run_python("import layoutpack", LAYOUTPACK_ISA="abacus")
    assert done.returncode == 1
    assert "ImportError" in done.stderr
    assert "abacus" in done.stderr


# ---------------------------------------------------------------------------------------------- many callers


@pytest.mark.parametrize("threads", [1, 2, 3, 64])
def test_any_number_of_threads(big, threads):
    x, want = big
    np.testing.assert_array_equal(lp.to_nc1hwc0(x, threads=threads), want)


def test_32_callers_at_once(big):
    x, want = big
    failures = []

    def call():
        failures.extend(t for t in (2, None, 2) if not np.array_equal(lp.to_nc1hwc0(x, threads=t), want))

    callers = [threading.Thread(target=call) for _ in range(32)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(LIMIT)
    assert not failures
    assert not any(caller.is_alive() for caller in callers)
    if sys.platform == "linux":
        assert len(list(Path("/proc/self/task").iterdir())) < 40


def test_the_crew_sleeps(big):
    x, _ = big
    lp.to_nc1hwc0(x, threads=2)
    time.sleep(0.05)
    before = time.process_time()
    time.sleep(0.2)
    assert time.process_time() - before < 0.1


# ---------------------------------------------------------------------------------------------- forks and signals

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")

FORKS = {
    "after a parallel call": "assert good(); assert in_child(good); assert good()",
    "before any call": "assert in_child(good); assert good()",
    "a grandchild": "assert good(); assert in_child(lambda: good() and in_child(good)); assert good()",
    "with 64 threads": "assert good(64); assert in_child(lambda: good(64)); assert good(64)",
    "by default": "assert good(None); assert in_child(lambda: lp.get_num_threads() == 1 and good(None))",
    "from another thread": """
        assert good()
        t = threading.Thread(target=lambda: done.append(in_child(good)))
        done = []; t.start(); t.join(); assert done == [True]; assert good()
    """,
    "while others convert": """
        stop = []
        def convert():
            while not stop: good()
        others = [threading.Thread(target=convert) for _ in range(4)]
        for t in others: t.start()
        assert all(in_child(good) for _ in range(5))
        stop.append(1)
        for t in others: t.join()
    """,
    "and the child sets its number": """
        assert in_child(lambda: lp.set_num_threads(2) is None and lp.get_num_threads() == 2)
    """,
    "and leaves right after a first call": "assert all(in_child(good) for _ in range(10))",
}


@needs_fork
@pytest.mark.parametrize("case", FORKS)
def test_fork(case):
    done = run_python(PRELUDE + textwrap.dedent(FORKS[case]))
    assert done.returncode == 0, done.stderr


@needs_fork
def test_fork_says_why_it_uses_one_thread():
    code = PRELUDE + "assert in_child(lambda: print(lp.show_config()['threads']['source'], flush=True) is None)"
    if lp.show_config()["openmp"]:
        assert "forked" in run_python(code).stdout


def convert_in_pool(seed):
    x = np.full((8, 70, 56, 56), seed, np.uint16)
    y = lp.to_nc1hwc0(x, threads=2)
    return bool((y[:, 0] == seed).all() and (y[:, 4, ..., 6:] == 0).all())


@needs_fork
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # Python 3.12 and later warn of any other thread
def test_multiprocessing_fork(big):
    x, want = big
    np.testing.assert_array_equal(lp.to_nc1hwc0(x, threads=2), want)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map_async(convert_in_pool, [1, 2, 3, 4]).get(LIMIT) == [True] * 4


@pytest.mark.parametrize("threads", [1, 2])
def test_interrupt(threads):
    """SIGINT during conversions that take seconds raises within 0.2 s, and the process goes on."""
    code = f"""
        import os, signal, threading, time, numpy as np, layoutpack as lp
        x = np.ones((1, 96, 1024, 1024), np.uint8)
        out = lp.to_nc1hwc0(x)
        sent = []
        def interrupt():
            sent.append(time.perf_counter())
            os.kill(os.getpid(), signal.SIGINT)
        threading.Timer(0.3, interrupt).start()
        try:
            while True:
                lp.to_nc1hwc0(np.broadcast_to(x, (4, 96, 1024, 1024)), threads={threads})
        except KeyboardInterrupt:
            late = time.perf_counter() - sent[0]
        assert (lp.to_nc1hwc0(x[:, :, :8], threads={threads}) == out[:, :, :8]).all()
        print(late)
    """
    done = run_python(code)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 1.0  # a bound that a busy machine keeps; alone it is a few hundredths


def test_signals_go_to_the_program(big):
    """A handler of the program runs, on its main thread, although helpers exist."""
    x, want = big
    lp.to_nc1hwc0(x, threads=2)
    seen = []
    previous = signal.signal(signal.SIGUSR1, lambda *_: seen.append(threading.current_thread()))
    try:
        os.kill(os.getpid(), signal.SIGUSR1)
        np.testing.assert_array_equal(lp.to_nc1hwc0(x, threads=2), want)
    finally:
        signal.signal(signal.SIGUSR1, previous)
    assert seen == [threading.main_thread()]
