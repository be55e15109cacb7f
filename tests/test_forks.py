"""Forks: whoever forks and whenever, parent and child get the right bytes, nobody hangs, and the parent stays parallel.

GNU OpenMP by itself hangs in a child whose parent had run a parallel region, its own or PyTorch's. So every way to
fork is tried with layoutpack imported alone, before PyTorch, after it, and in the child only; with the default number
of threads, with 2 and with 64. `.ci/forks` runs this file on three builds.
"""

import importlib.util
import json
import os
from functools import lru_cache

import pytest

import layoutpack as lp
from programs import LIMIT, run_python

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
needs_torch = pytest.mark.skipif(not importlib.util.find_spec("torch"), reason="needs torch")

IMPORTS = {
    "layoutpack": [],
    "layoutpack, torch": needs_torch,
    "torch, layoutpack": needs_torch,
    "torch": needs_torch,  # layoutpack comes in the child
}

# `n` is the number of threads; `work` is what a parent does that has just what was imported.
WAYS = {
    "os.fork": "assert in_child(lambda: good(n))",
    "a parallel child": "assert in_child(lambda: good(n) and parallel())",
    "a grandchild": "assert in_child(lambda: good(n) and in_child(lambda: good(n)))",
    "before any work of the child": "assert in_child(lambda: in_child(lambda: good(n)) and good(n))",
    "the child sets its number": """
        def renumbered():
            import layoutpack as lp
            return all(lp.set_num_threads(k) is None and good(None) for k in (n, 2, 64, 1, 2))
        assert in_child(renumbered)
    """,
    "from another thread": "assert in_threads(1, lambda: in_child(lambda: good(n)))",
    "while others convert": """
        stop = threading.Event()
        def convert():
            while not stop.is_set():
                work(n)
            return True
        others = [threading.Thread(target=convert) for _ in range(4)]
        for t in others: t.start()
        assert all(in_child(lambda: good(n)) for _ in range(3))
        stop.set()
        for t in others: t.join()
    """,
    "the child's interpreter ends": """
        pid = os.fork()
        if not pid:
            good(n)
            ctypes.pythonapi.Py_Exit(0)
        assert os.waitpid(pid, 0)[1] == 0
    """,
    "multiprocessing": """
        with multiprocessing.get_context("fork").Pool(2) as pool:
            assert all(pool.map_async(good, [n] * 4).get(LIMIT))
    """,
    # As gunicorn with --preload (benoitc/gunicorn#2478).
    "a preloading server": """
        in_threads(1, lambda: work(n))
        workers = [start_child(lambda: in_threads(4, lambda: all(good(n) for _ in range(3)))) for _ in range(3)]
        assert all(map(end_of, workers))
    """,
    "DataLoader": """
        import torch
        class Samples(torch.utils.data.Dataset):
            def __len__(self): return 4
            def __getitem__(self, i): return good(n)
        loader = torch.utils.data.DataLoader(Samples(), num_workers=2, timeout=LIMIT, multiprocessing_context="fork")
        assert all(map(bool, loader))
    """,
}

# Every way starts in a process that has imported and done nothing else: a fork of one that keeps to that, since
# importing PyTorch takes seconds.
PROGRAM = """
import contextlib, ctypes, json, multiprocessing, os, signal, sys, textwrap, threading, time, traceback
import numpy as np
os.sched_getaffinity = lambda pid: range(64)  # so that 64 threads are no fewer on a small machine
import {imports}

LIMIT = {limit}
x = np.arange(8 * 160 * 56 * 56, dtype=np.uint16).reshape(8, 160, 56, 56)
want = x.reshape(8, 10, 16, 56, 56).transpose(0, 1, 3, 4, 2)

def good(threads):
    import layoutpack as lp
    return np.array_equal(lp.to_nc1hwc0(x, threads=threads), want)

def work(threads):
    if "torch" in sys.modules:
        import torch
        torch.ones(1 << 20).add_(1)
    if "layoutpack" in sys.modules:
        assert good(threads)

def parallel():
    # Other threads do a fair part of what a call does, at the latest when the machine has time for them. A call is long
    # enough for a helper to be woken before its end where others wait for the CPUs, too.
    import layoutpack as lp
    large = np.concatenate([x] * 8)
    out = lp.to_nc1hwc0(large)
    end = time.monotonic() + LIMIT / 2
    while lp.show_config()["openmp"]:
        everybody, mine = time.process_time(), time.thread_time()
        for _ in range(3):
            lp.to_nc1hwc0(large, out=out, threads=2)
        everybody, mine = time.process_time() - everybody, time.thread_time() - mine
        if everybody > 1.1 * mine:
            break
        if time.monotonic() > end:
            return False
    return True

def start_child(act):
    pid = os.fork()
    if not pid:
        signal.alarm(LIMIT)
        code = 1
        try:
            code = 0 if act() else 1
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return pid

def end_of(pid):
    return os.waitpid(pid, 0)[1] == 0

def in_child(act):
    return end_of(start_child(act))

def in_threads(number, act):
    results = []
    threads = [threading.Thread(target=lambda: results.append(act())) for _ in range(number)]
    for t in threads: t.start()
    for t in threads: t.join()
    return results == [True] * number

def try_way(code):
    os.setpgid(0, 0)
    if "layoutpack" in sys.modules:
        sys.modules["layoutpack._threads"]._Process.forked = False
    for n in (None, 2, 64):
        signal.alarm(LIMIT)
        work(n)
        exec(textwrap.dedent(code), globals() | {{"n": n}})
        work(n)
    signal.alarm(LIMIT)
    return parallel()

def outcome(code):
    pid = start_child(lambda: try_way(code))
    good = end_of(pid)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)  # children that hang outlive it
    return good

print(json.dumps({{way: outcome(code) for way, code in {ways}.items()}}))
"""


@lru_cache
def outcomes(imports):
    ways = {way: code for way, code in WAYS.items() if way != "DataLoader" or "torch" in imports}
    done = run_python(PROGRAM.format(imports=imports, limit=LIMIT, ways=ways), limit=4 * LIMIT * len(WAYS))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1]), done.stderr


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("imports", [pytest.param(name, marks=marks) for name, marks in IMPORTS.items()])
def test_fork(imports, way):
    if way == "DataLoader" and "torch" not in imports:
        pytest.skip("DataLoader is torch's")
    good, errors = outcomes(imports)
    assert good[way], errors


def test_fork_after_a_large_repack_lightgbm_4751():
    """As a user does it, with nothing arranged."""
    code = """
        import os, sys, numpy as np, layoutpack as lp
        x = np.ones((4, 256, 256, 128), np.uint16)
        want = lp.to_nc1hwc0(x)
        pid = os.fork()
        same = np.array_equal(lp.to_nc1hwc0(x), want)
        if not pid:
            os._exit(0 if same else 1)
        sys.exit(os.waitpid(pid, 0)[1] or not same)
    """
    done = run_python(code)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("imports", [pytest.param(name, marks=m) for name, m in IMPORTS.items() if "layout" in name])
def test_end_right_after_the_first_call(imports):
    code = f"""
        import os
        os.sched_getaffinity = lambda pid: range(64)
        import numpy as np, {imports}
        layoutpack.to_nc1hwc0(np.ones((4, 256, 64, 64), np.uint16), threads=int(os.environ["THREADS"]))
    """
    for threads in ("2", "64", "2") if imports == "layoutpack" else ("2",):
        done = run_python(code, THREADS=threads)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_child_uses_one_thread_and_says_why():
    code = """
        import os, layoutpack as lp
        pid = os.fork()
        if pid:
            os.waitpid(pid, 0)
        else:
            print(lp.get_num_threads(), lp.show_config()["threads"]["source"])
    """
    if not lp.show_config()["openmp"]:
        pytest.skip("built without OpenMP")
    assert run_python(code).stdout == "1 forked child: 1 by default\n"
