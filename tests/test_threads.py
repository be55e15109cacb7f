"""How many threads, whose threads, and what happens to them: settings, signals, many callers at once."""

import asyncio
import ctypes
import os
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import layoutpack as lp
from layoutpack import _system, _threads
from programs import LIMIT, run_python


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


@pytest.mark.parametrize(("quota", "threads"), [("200000", 2), ("150000", 2), ("max", 16)])
def test_the_default_obeys_the_quota_xgboost_7653(monkeypatch, tmp_path, quota, threads):
    root = write(tmp_path, {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": f"{quota} 100000\n"})
    monkeypatch.setattr(_threads._engine, "OPENMP", 1)
    monkeypatch.setattr(_threads._engine, "openmp_max_threads", lambda: 16)
    monkeypatch.setattr(_threads, "affinity", lambda: 16)
    monkeypatch.setattr(_threads, "_quota", lambda: _threads.cgroup_quota(root))
    source = "cgroup quota" if threads < 16 else "CPU affinity"
    assert _threads.thread_count() == (threads, source)
    assert [_threads.usable(explicit) for explicit in (8, 64)] == [8, 16]


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


# ---------------------------------------------------------------------------------------------- other libraries

needs_openmp = pytest.mark.skipif(not lp.show_config()["openmp"], reason="built without OpenMP")
needs_proc = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="counts threads in /proc")

COUNT = """
import ctypes, os, re, time, numpy as np
os.sched_getaffinity = lambda pid: range(64)
import layoutpack as lp
def os_threads():
    time.sleep(0.2)  # helpers may begin after the call that wanted them
    return len(os.listdir("/proc/self/task"))
def convert(nbytes, threads=None):
    lp.to_nc1hwc0(np.ones((1, 16, nbytes // 32, 1), np.uint16), threads=threads)
before = os_threads()
"""


@needs_openmp
def test_openmp_limits_are_read_at_every_call():
    threadpoolctl = pytest.importorskip("threadpoolctl")
    default = lp.show_config()["threads"]
    for limit in (_threads.affinity() + 1, 1):
        with threadpoolctl.threadpool_limits(limit):
            assert lp.get_num_threads() == limit
    assert lp.show_config()["threads"] == default


@needs_openmp
def test_pytorch_limits_are_read_at_every_call():
    pytest.importorskip("torch")
    code = """
        import torch, layoutpack as lp  # in this order both use the OpenMP that PyTorch brings
        for n in (3, 1, 5):
            torch.set_num_threads(n)
            print(lp.get_num_threads())
    """
    assert run_python(code, OMP_NUM_THREADS="7").stdout.split() == ["3", "1", "5"]


@needs_openmp
@needs_proc
@pytest.mark.parametrize(
    ("nbytes", "threads", "helpers"),
    [
        ((512 << 10) - 32, None, 0),  # moved faster than a helper wakes
        (1 << 20, None, 3),  # one thread for 256 KiB
        (4 << 20, None, 7),  # OMP_NUM_THREADS
        (256 << 10, 2, 1),  # an explicit number is obeyed ...
        (256 << 10, 64, 1),  # ... as far as there are chunks of 192 KiB
    ],
)
def test_no_more_threads_than_work(nbytes, threads, helpers):
    done = run_python(f"{COUNT}convert({nbytes}, {threads})\nprint(os_threads() - before)", OMP_NUM_THREADS="8")
    assert done.stdout == f"{helpers}\n", done.stderr


@needs_proc
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs CPU affinity")
@pytest.mark.parametrize("threads", [None, 64])
def test_no_more_threads_than_cpus(threads):
    code = f"""
        import os, time
        os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
        import numpy as np, layoutpack as lp
        before = len(os.listdir("/proc/self/task"))
        lp.to_nc1hwc0(np.ones((1, 64, 512, 512), np.uint16), threads={threads})
        time.sleep(0.2)
        print(lp.get_num_threads(), len(os.listdir("/proc/self/task")) - before)
    """
    done = run_python(code, OMP_NUM_THREADS="")
    assert done.stdout == "1 0\n", done.stderr


@needs_openmp
@needs_proc
def test_a_call_inside_a_parallel_region_is_serial():
    code = (
        COUNT
        + """
(path,) = set(re.findall(r"/\\S*libgomp\\S*", open("/proc/self/maps").read()))
calls = []
@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def body(_):
    convert(4 << 20, 8)
    calls.append(1)
ctypes.CDLL(path).GOMP_parallel(body, None, 2, 0)
print(len(calls), os_threads() - before)
"""
    )
    if "libgomp" not in Path("/proc/self/maps").read_text():
        pytest.skip("needs GNU OpenMP")
    done = run_python(code)
    assert done.stdout == "2 1\n", done.stderr  # the region's own thread, and no helper


def test_nothing_global_changes(big):
    x, want = big
    libm = ctypes.CDLL(None)
    tiny = np.float32(np.finfo(np.float32).smallest_subnormal)

    def state():
        return (
            _threads._engine.openmp_max_threads(),
            [signal.getsignal(number) for number in signal.valid_signals()],
            signal.pthread_sigmask(signal.SIG_BLOCK, []),
            _threads.affinity(),
            libm.fegetround(),
            tiny * np.float32(1) == tiny,  # neither subnormal results nor operands are flushed to zero
        )

    before = state()
    np.testing.assert_array_equal(lp.to_nc1hwc0(x, threads=2), want)
    assert state() == before


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


def convert_at_random(seed, end):
    """Random conversions on random numbers of threads until the time is over; whether all were right."""
    rng = np.random.default_rng(seed)
    while time.monotonic() < end:
        n, c, h, w = (int(rng.integers(1, most)) for most in (4, 80, 60, 60))
        x = rng.integers(0, 256, (n, c, h, w), np.uint8)
        packed = lp.to_nc1hwc0(x, c0=int(rng.integers(1, 40)), threads=int(rng.integers(1, 5)))
        if not np.array_equal(lp.from_nc1hwc0(packed, channels=c, threads=2), x):
            return False
        if not np.array_equal(lp.repack(x, "NCHW", "NHWC", threads=2), x.transpose(0, 2, 3, 1)):
            return False
    return True


def check_32_threads(seconds):
    end = time.monotonic() + seconds
    with ThreadPoolExecutor(32) as pool:
        assert all(pool.map(convert_at_random, range(32), [end] * 32))


def test_32_threads_at_random():
    check_32_threads(2)


@pytest.mark.soak
def test_32_threads_at_random_for_long(request):
    check_32_threads(request.config.getoption("--soak"))


def test_threads_may_share_an_output(big):
    """Slices of one array that do not overlap may be filled at the same time."""
    x, want = big
    out = np.empty_like(want)
    with ThreadPoolExecutor(2) as pool:
        for _ in range(5):
            out[...] = 0
            halves = slice(None, None, 2), slice(1, None, 2)
            list(pool.map(lambda half: lp.to_nc1hwc0(x[half], out=out[half], threads=2), halves))
            np.testing.assert_array_equal(out, want)


def test_the_crew_sleeps(big):
    x, _ = big
    lp.to_nc1hwc0(x, threads=2)
    time.sleep(0.05)
    before = time.process_time()
    time.sleep(0.2)
    assert time.process_time() - before < 0.1


# ---------------------------------------------------------------------------------------------- signals


# Four GiB each, made of next to nothing.
LONG = {
    "blocks": "lp.to_nc1hwc0(spread(ones(1, 96, 1, 1024), 43, 96, 1024, 1024), threads=threads)",
    "one block": "lp.repack(spread(ones(1), 65000, 65000), 'ND', 'FRACTAL_NN', c0=65001, n0=65001, threads=threads)",
    "padding": "lp.to_nc1hwc0(ones(1, 3, 1, 1), c0=1 << 32, threads=threads)",
    "transposed": "lp.repack(spread(ones(1 << 16), 1 << 16, 1 << 16).T, 'HW', 'WH', threads=threads)",
    "copied": "lp.repack(spread(ones(1 << 16), 1 << 16, 1 << 16), 'HW', 'HW', threads=threads)",
    "contiguous": "lp.to_contiguous(spread(ones(1 << 16, 1), 1 << 16, 1 << 16), threads=threads)",
    "channels-last": "lp.to_channels_last(spread(ones(1, 8, 1, 2048), 128, 8, 2048, 2048), threads=threads)",
}


@pytest.mark.skipif(sys.platform != "linux", reason="without the crew a conversion ends before signals are seen")
@pytest.mark.parametrize("case", LONG)
def test_interrupt_cpython_134075(case):
    """SIGINT during a conversion that takes seconds raises within 0.2 s, and the process goes on."""
    code = f"""
        import os, signal, threading, time, numpy as np, layoutpack as lp
        signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in a shell's background jobs
        def ones(*shape):
            return np.ones(shape, np.uint8)
        def spread(x, *shape):
            return np.broadcast_to(x, shape)
        def interrupt():
            sent.append(time.perf_counter())
            os.kill(os.getpid(), signal.SIGINT)
        for threads in (1, 2):
            sent = []
            threading.Timer(0.1, interrupt).start()
            try:
                {LONG[case]}
                print("ended")
            except KeyboardInterrupt:
                print(time.perf_counter() - sent[0])
            x = np.arange(1 << 20).reshape(1, 16, 256, 256)
            assert (lp.to_nc1hwc0(x, threads=threads)[:, 0] == x.transpose(0, 2, 3, 1)).all()
    """
    done = run_python(code)
    assert done.returncode == 0, done.stderr
    assert [late for late in done.stdout.split() if float(late) > 1.0] == []  # what a busy machine keeps


def test_interrupt_while_another_thread_converts():
    """Only the main thread is interrupted, at once; the conversion ends as if nothing had been."""
    code = """
        import os, signal, threading, time, numpy as np, layoutpack as lp
        signal.signal(signal.SIGINT, signal.default_int_handler)
        x = np.ones((96, 1024, 1024), np.uint8)
        results = []
        def convert():
            results.append(lp.repack(np.broadcast_to(x, (8, *x.shape)), "NCHW", "NHWC", threads=2))
        t = threading.Thread(target=convert)
        t.start()
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(10)
        except KeyboardInterrupt:
            print("interrupted")
        t.join()
        assert results[0].all()
    """
    done = run_python(code)
    assert (done.returncode, done.stdout) == (0, "interrupted\n"), done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_terminate():
    """SIGTERM ends the process during a conversion, as it does where there are no helpers."""
    code = """
        import os, signal, threading, numpy as np, layoutpack as lp
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM)).start()
        while True:
            lp.repack(np.broadcast_to(np.uint8(1), (64, 1024, 1024)), "CHW", "HWC", threads=2)
    """
    assert run_python(code).returncode == -signal.SIGTERM


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
