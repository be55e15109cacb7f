"""The command line: exit codes, one-line errors, files written whole or not at all, and the demonstration."""

from __future__ import annotations

import errno
import importlib.util
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import layoutpack as lp
from layoutpack import _cli, _demo

main = _cli.main


def python(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=60, **options)


def error_line(capsys: pytest.CaptureFixture[str]) -> str:
    """The only line on stderr, which must be an error without a traceback; nothing may be on stdout."""
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("layoutpack: error: ")
    assert captured.err.endswith("\n")
    assert captured.err.count("\n") == 1
    return captured.err


def usage_error(argv: Sequence[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as stopped:
        main(list(argv))
    assert stopped.value.code == 2
    return capsys.readouterr().err


def saved(path: Path, array: np.ndarray) -> str:
    np.save(path, array)
    return str(path)


def counted(shape: tuple[int, ...], dtype: str = "float32") -> np.ndarray:
    return np.arange(np.prod(shape)).reshape(shape).astype(dtype)


def nc1hwc0(x: np.ndarray, c0: int, fill: float = 0) -> np.ndarray:
    n, c, h, w = x.shape
    padded = np.full((n, -(-c // c0) * c0, h, w), fill, x.dtype)
    padded[:, :c] = x
    return padded.reshape(n, -1, c0, h, w).transpose(0, 1, 3, 4, 2)


def fractal_nz(x: np.ndarray, m0: int, c0: int) -> np.ndarray:
    h, w = x.shape
    padded = np.zeros((-(-h // m0) * m0, -(-w // c0) * c0), x.dtype)
    padded[:h, :w] = x
    return padded.reshape(-1, m0, padded.shape[1] // c0, c0).transpose(2, 0, 1, 3)


def same(path: str | Path, expected: np.ndarray) -> None:
    found = np.load(path, allow_pickle=False)
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    assert found.tobytes() == np.ascontiguousarray(expected).tobytes()


# ---- the program itself ----


def test_version(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["--version"])
    assert stopped.value.code == 0
    assert capsys.readouterr().out == f"layoutpack {lp.__version__}\n"


@pytest.mark.parametrize("command", ["demo", "convert", "info", "verify", "bench"])
def test_help_of_each_command(command, capsys):
    with pytest.raises(SystemExit) as stopped:
        main([command, "--help"])
    assert stopped.value.code == 0
    assert f"usage: layoutpack {command}" in capsys.readouterr().out


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["fold"],
        ["info"],
        ["info", "a.npy", "--colour"],
        ["convert", "a.npy", "b.npy", "--from", "NCHW"],
        ["convert", "a.npy", "b.npy", "--from", "NCHW", "--to", "NC1HWC9"],
        ["convert", "a.npy", "b.npy", "--from", "NCNW", "--to", "NHWC"],
        ["convert", "a.npy", "b.npy", "--from", "NCHW", "--to", "NHWC", "--forc"],
        ["convert", "a.npy", "b.npy", "--from", "NCHW", "--to", "NHWC", "--c0", "0"],
        ["convert", "a.npy", "b.npy", "--from", "NCHW", "--to", "NHWC", "--c0", "x"],
        ["convert", "a.npy", "b.npy", "--from", "NCHW", "--to", "NHWC", "--shape", "1,,2"],
        ["convert", "a.npy", "b.npy", "--from", "NCHW", "--to", "NHWC", "--shape=-1,2"],
        ["convert", "a.npy", "b.npy", "--from", "NCHW", "--to", "NHWC", "--channels", "-1"],
        ["convert", "a.npy", "b.npy", "--from", "NCHW", "--to", "NHWC", "--fill", "red"],
        ["convert", "a.npy", "b.npy", "--from", "NCHW", "--to", "NHWC", "--dtype", "flot32"],
        ["convert", "a.npy", "b.npy", "--from", "NCHW", "--to", "NHWC", "--dtype", "f4,("],
        ["convert", "a.npy", "b.npy", "--from", "NCHW", "--to", "NHWC", "--dtype", "object"],
        ["convert", "a.npy", "b.npy", "--from", "NCHW", "--to", "NHWC", "--threads", "0"],
        ["verify", "a.npy", "--from", "NC1HWC0"],
        ["bench", "--repeat", "0"],
        ["bench", "--from", "NC1HWC0", "--to", "NCHW16c"],
    ],
    ids=" ".join,
)
def test_wrong_usage_is_exit_code_2(argv, capsys):
    assert "usage: layoutpack" in usage_error(argv, capsys)


@pytest.mark.parametrize("name", ["b.safetensors", "b.npz", "b", "npy"])
def test_only_npy_is_written(name, capsys):
    message = usage_error(["convert", "a.npy", name, "--from", "NCHW", "--to", "NHWC"], capsys)
    assert "does not end in .npy" in message


def test_module_and_exit_codes(tmp_path):
    x = counted((1, 3, 4, 5))
    path = saved(tmp_path / "x.npy", x)
    out = str(tmp_path / "y.npy")
    done = python("-m", "layoutpack", "convert", path, out, "--from", "NCHW", "--to", "NC1HWC0")
    assert (done.returncode, done.stderr) == (0, "")
    assert "NC1HWC0 (1, 1, 4, 5, 16) float32" in done.stdout
    same(out, nc1hwc0(x, 16))
    failed = python("-m", "layoutpack", "info", str(tmp_path / "none.npy"))
    assert failed.returncode == 1
    assert failed.stderr == f"layoutpack: error: {tmp_path / 'none.npy'}: No such file or directory\n"
    assert python("-m", "layoutpack").returncode == 2


def test_a_bug_shows_its_traceback(tmp_path, monkeypatch):
    def broken(*args: object, **keywords: object) -> None:
        raise AssertionError("a bug")

    monkeypatch.setattr(lp, "repack", broken)
    path = saved(tmp_path / "x.npy", counted((1, 3, 4, 5)))
    with pytest.raises(AssertionError, match="a bug"):
        main(["convert", path, str(tmp_path / "y.npy"), "--from", "NCHW", "--to", "NHWC"])


def test_interrupt(tmp_path):
    script = (
        "import signal, sys, layoutpack._cli as cli;"
        "signal.signal(signal.SIGINT, signal.default_int_handler);"  # ignored in a shell's background jobs
        "print('ready', flush=True);"
        "sys.exit(cli.main(['bench', '--shape', '1,1,1,1', '--repeat', '1000000000']))"
    )
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with process:
        assert process.stdout.readline() == b"ready\n"
        try:
            process.wait(0.5)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
        assert process.stderr.read() == b""


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("argv", [["--help"], ["info", "x.npy"]], ids=" ".join)
def test_reader_that_has_gone(argv, unbuffered, tmp_path):
    saved(tmp_path / "x.npy", counted((2, 3)))
    reader, writer = os.pipe()
    os.close(reader)
    try:
        process = subprocess.run(
            [sys.executable, "-m", "layoutpack", *argv],
            stdout=writer,
            stderr=subprocess.PIPE,
            timeout=60,
            cwd=tmp_path,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        )
    finally:
        os.close(writer)
    assert process.stderr == b""
    assert process.returncode == 1 or argv == ["--help"]  # argparse itself overlooks it where nothing is buffered


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_stdout_on_a_full_disk(tmp_path):
    path = saved(tmp_path / "x.npy", counted((2, 3)))
    with open("/dev/full", "w") as full:
        process = subprocess.run(
            [sys.executable, "-m", "layoutpack", "info", path], stdout=full, stderr=subprocess.PIPE, timeout=60
        )
    assert process.returncode == 1
    assert process.stderr.startswith(b"layoutpack: error: ")
    assert process.stderr.count(b"\n") == 1


def test_names_that_the_terminal_cannot_show(tmp_path):
    path = saved(tmp_path / "\u65e5.npy", counted((2, 3)))
    done = python("-m", "layoutpack", "info", path, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0
    assert r"\u65e5.npy" in done.stdout


# ---- convert ----


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["float32", "uint8", ">i2", "complex128"])
def test_convert_and_back(order, dtype, tmp_path, capsys):
    x = np.asarray(counted((2, 35, 4, 5), dtype), order=order)
    path, packed, back = saved(tmp_path / "x.npy", x), str(tmp_path / "y.npy"), str(tmp_path / "z.npy")
    assert main(["convert", path, packed, "--from", "NCHW", "--to", "NC1HWC0"]) == 0
    same(packed, nc1hwc0(x, lp.default_c0(dtype)))
    for option in (["--channels", "35"], ["--shape", "2,35,4,5"]):
        assert main(["convert", packed, back, "--from", "NC1HWC0", "--to", "NCHW", "--force", *option]) == 0
        same(back, x)
    assert capsys.readouterr().err == ""


def test_convert_options(tmp_path):
    x = counted((2, 5, 3, 4))
    path, out = saved(tmp_path / "x.npy", x), str(tmp_path / "y.npy")
    argv = ["convert", path, out, "--from", "NCHW", "--to", "NC1HWC0", "--force"]
    assert main([*argv, "--c0", "4", "--fill=-1.5", "--threads", "1"]) == 0
    same(out, nc1hwc0(x, 4, -1.5))
    assert main([*argv, "--c0", "8", "--dtype", "float64"]) == 0
    same(out, nc1hwc0(x.astype("float64"), 8))
    assert main([*argv, "--c0", "8", "--fill", "nan"]) == 0
    same(out, nc1hwc0(x, 8, np.nan))

    matrix = counted((20, 28), "float16")
    path = saved(tmp_path / "m.npy", matrix)
    assert main(["convert", path, out, "--from", "ND", "--to", "FRACTAL_NZ", "--m0", "4", "--c0", "8", "--force"]) == 0
    same(out, fractal_nz(matrix, 4, 8))

    weights = counted((17, 20), "int16")
    path = saved(tmp_path / "w.npy", weights)
    assert main(["convert", path, out, "--from", "ND", "--to", "FRACTAL_ZN", "--n0", "8", "--c0", "4", "--force"]) == 0
    padded = np.zeros((20, 24), "int16")
    padded[:17, :20] = weights
    same(out, padded.reshape(5, 4, 3, 8).transpose(0, 2, 3, 1))


def test_convert_between_plain_orders_of_a_fortran_file(tmp_path):
    x = np.asfortranarray(counted((1, 2, 3, 4)))
    path, out = saved(tmp_path / "x.npy", x), tmp_path / "y.npy"
    assert main(["convert", path, str(out), "--from", "NCHW", "--to", "NHWC"]) == 0
    same(out, x.transpose(0, 2, 3, 1))


def test_convert_keeps_bits(tmp_path):
    bits = np.array([0x7FC00001, 0xFFC12345, 0x7F800001, 0x80000000, 0, 1], np.uint32).reshape(1, 6, 1, 1)
    path, out, back = saved(tmp_path / "x.npy", bits.view(np.float32)), str(tmp_path / "y.npy"), tmp_path / "z.npy"
    assert main(["convert", path, out, "--from", "NCHW", "--to", "NC1HWC0"]) == 0
    assert main(["convert", out, str(back), "--from", "NC1HWC0", "--to", "NCHW", "--channels", "6"]) == 0
    same(back, bits.view(np.float32))


def test_convert_raw_bytes_as_numpy_stores_bfloat16(tmp_path):
    x = counted((1, 5, 2, 2), "uint16")
    path, out = saved(tmp_path / "x.npy", x.view("V2")), str(tmp_path / "y.npy")
    assert main(["convert", path, out, "--from", "NCHW", "--to", "NC1HWC0"]) == 0
    same(out, np.ascontiguousarray(nc1hwc0(x, 16)).view("V2"))


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "int4"])
def test_dtypes_that_npy_cannot_keep(name, tmp_path, capsys):
    pytest.importorskip("ml_dtypes")
    path, out = saved(tmp_path / "x.npy", counted((1, 3, 2, 2))), tmp_path / "y.npy"
    assert main(["convert", path, str(out), "--from", "NCHW", "--to", "NC1HWC0", "--dtype", name, "--c0", "16"]) == 1
    assert f"cannot keep dtype {name}" in error_line(capsys)
    assert not out.exists()


def test_dtype_of_ml_dtypes_that_is_not_installed(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    argv = ["convert", "x.npy", "y.npy", "--from", "NCHW", "--to", "NHWC", "--dtype", "float3_e1m1"]
    assert "knows no dtype 'float3_e1m1'" in usage_error(argv, capsys)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--from", "NCDHW", "--to", "NDC1HWC0"], "NCDHW"),
        (["--from", "NCHW16c", "--to", "NCHW"], "NCHW16c"),
        (["--from", "NCHW", "--to", "NHWC", "--dtype", "int8"], "cast"),
        (["--from", "NCHW", "--to", "NC1HWC0", "--n0", "8"], "n0"),
        (["--from", "NCHW", "--to", "NC1HWC0", "--fill", "1j"], "fill"),
        (["--from", "NCHW", "--to", "NC1HWC0", "--shape", "1,2,2,2"], "C"),
        (["--from", "NCHW", "--to", "NC1HWC0", "--c0", "9" * 30], "too big"),
    ],
)
def test_conversions_that_cannot_be(options, word, tmp_path, capsys):
    path, out = saved(tmp_path / "x.npy", counted((1, 3, 2, 2))), tmp_path / "y.npy"
    assert main(["convert", path, str(out), *options]) == 1
    assert word in error_line(capsys)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x.npy"]


def test_unpacking_needs_what_padding_hides(tmp_path, capsys):
    path = saved(tmp_path / "y.npy", counted((1, 2, 3, 4, 16)))
    argv = ["convert", path, str(tmp_path / "x.npy"), "--from", "NC1HWC0", "--to", "NCHW"]
    assert main(argv) == 1
    assert "channels" in error_line(capsys)
    assert main([*argv, "--channels", "16"]) == 1
    assert "16" in error_line(capsys)
    assert main([*argv, "--channels", "17"]) == 0


@pytest.mark.parametrize(("extent", "packed"), [((0, 3, 2, 2), (0, 1, 2, 2, 16)), ((2, 3, 0, 2), (2, 1, 0, 2, 16))])
def test_convert_without_elements(extent, packed, tmp_path):
    path, out = saved(tmp_path / "x.npy", np.empty(extent, "float32")), tmp_path / "y.npy"
    assert main(["convert", path, str(out), "--from", "NCHW", "--to", "NC1HWC0"]) == 0
    same(out, np.empty(packed, "float32"))


# ---- the output file ----


@pytest.fixture
def conversion(tmp_path):
    """An input, an output that exists already, and the command between them."""
    x = counted((1, 3, 4, 5))
    old = tmp_path / "y.npy"
    np.save(old, np.arange(7))
    argv = ["convert", saved(tmp_path / "x.npy", x), str(old), "--from", "NCHW", "--to", "NC1HWC0"]
    return argv, old, x


def untouched(old: Path) -> None:
    same(old, np.arange(7))
    assert sorted(p.name for p in old.parent.iterdir()) == ["x.npy", "y.npy"]


def test_no_overwriting_without_force(conversion, capsys):
    argv, old, x = conversion
    assert main(argv) == 1
    assert "--force" in error_line(capsys)
    untouched(old)
    assert main([*argv, "--force"]) == 0
    same(old, nc1hwc0(x, 16))
    assert len(list(old.parent.iterdir())) == 2


def test_no_overwriting_of_a_file_that_appears_meanwhile(conversion, capsys, monkeypatch):
    argv, old, _ = conversion
    monkeypatch.setattr(_cli, "check_output", lambda path, force: None)
    assert main(argv) == 1
    assert "exists already" in error_line(capsys)
    untouched(old)


def test_file_systems_without_hard_links(conversion, capsys, monkeypatch):
    def refused(*args: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    argv, old, x = conversion
    monkeypatch.setattr(os, "link", refused)
    monkeypatch.setattr(_cli, "check_output", lambda path, force: None)
    assert main(argv) == 1
    assert "exists" in error_line(capsys)
    untouched(old)
    old.unlink()
    assert main(argv) == 0
    same(old, nc1hwc0(x, 16))


@pytest.mark.parametrize(
    "failure", [OSError(errno.ENOSPC, "No space left on device"), MemoryError(), KeyboardInterrupt()]
)
@pytest.mark.parametrize("step", ["write_array", "fsync", "replace"])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(failure, step, conversion, monkeypatch):
    def fail(*args: object, **keywords: object) -> None:
        if step == "write_array":
            args[0].write(b"half of")
        raise failure

    argv, old, _ = conversion
    monkeypatch.setattr(_cli.npy if step == "write_array" else os, step, fail)
    assert main([*argv, "--force"]) == (130 if isinstance(failure, KeyboardInterrupt) else 1)
    monkeypatch.undo()
    untouched(old)


def test_a_file_too_big_for_its_limit(conversion):
    argv, old, _ = conversion
    script = (
        "import resource, sys, layoutpack._cli as cli; resource.setrlimit(resource.RLIMIT_FSIZE, (300, 300));"
        "sys.exit(cli.main(sys.argv[1:]))"
    )
    failed = python("-c", script, *argv, "--force")
    assert failed.returncode == 1
    assert failed.stderr.startswith("layoutpack: error: ")
    assert failed.stderr.count("\n") == 1
    untouched(old)


@pytest.mark.parametrize("order", ["C", "F"])
def test_input_and_output_may_be_the_same_file(order, tmp_path):
    x = np.asarray(counted((2, 3, 40, 50)), order=order)
    path = saved(tmp_path / "x.npy", x)
    argv = ["convert", path, path, "--from", "NCHW", "--to", "NHWC"]
    assert main(argv) == 1
    same(path, x)
    assert main([*argv, "--force"]) == 0
    same(path, x.transpose(0, 2, 3, 1))
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_permission_bits_follow_the_umask(umask, conversion):
    argv, old, _ = conversion
    old.unlink()
    assert python("-m", "layoutpack", *argv, umask=umask).returncode == 0
    assert stat.S_IMODE(old.stat().st_mode) == 0o666 & ~umask


def test_overwriting_keeps_permission_bits(conversion):
    argv, old, _ = conversion
    old.chmod(0o600)
    assert main([*argv, "--force"]) == 0
    assert stat.S_IMODE(old.stat().st_mode) == 0o600


def test_output_through_a_link(conversion, tmp_path, capsys):
    argv, old, x = conversion
    link = tmp_path / "link.npy"
    link.symlink_to("y.npy")
    argv[2] = str(link)
    assert main(argv) == 1
    assert "--force" in error_line(capsys)
    assert main([*argv, "--force"]) == 0
    assert link.is_symlink()
    same(old, nc1hwc0(x, 16))


def test_outputs_that_cannot_be(conversion, tmp_path, capsys):
    argv, _, _ = conversion
    (tmp_path / "folder.npy").mkdir()
    argv[2] = str(tmp_path / "folder.npy")
    assert main([*argv, "--force"]) == 1
    assert "folder.npy: Is a directory" in error_line(capsys)
    argv[2] = str(tmp_path / "none" / "y.npy")
    assert main(argv) == 1
    assert "no such folder" in error_line(capsys)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["folder.npy", "x.npy", "y.npy"]


# ---- files that are not what they claim ----


def npy(descr: str, shape: str, data: bytes = b"\0" * 64, version: int = 1, order: str = "False") -> bytes:
    header = f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY" + bytes([version, 0]) + len(header).to_bytes(2 if version == 1 else 4, "little") + header + data


HOSTILE = {
    "no bytes": b"",
    "magic only": b"\x93NUMPY",
    "text": b"shape: 3, 4\n" * 20,
    "zip": b"PK\x03\x04" + bytes(100),
    "pickle": b"\x80\x04\x95\x0b\0\0\0\0\0\0\0cos\nsystem\n.",
    "cut header": npy("'<f4'", "(3,)")[:30],
    "cut data": npy("'<f4'", "(1000, 1000)"),
    "unknown version": npy("'<f4'", "(3,)", version=9),
    "huge header": b"\x93NUMPY\x02\0\xff\xff\xff\xff",
    "huge shape": npy("'<f4'", "(1000000, 1000000, 1000000, 1000000)"),
    "huger shape": npy("'<f4'", f"({2**62},)"),
    "hugest shape": npy("'<f4'", f"({2**70},)"),
    "huge and empty": npy("'<f4'", f"(0, {2**62}, {2**62})"),
    "huge item": npy("'V99999999999'", "(3,)"),
    "negative shape": npy("'<f4'", "(-1, -4)"),
    "bool shape": npy("'<f4'", "(True, 2)"),
    "float shape": npy("'<f4'", "(1.0, 2)"),
    "many axes": npy("'<f4'", "(" + "1," * 100 + ")"),
    "objects": npy("'|O'", "(2, 2)"),
    "objects inside": npy("[('a', '|O')]", "(2, 2)"),
    "unknown dtype": npy("'<q7'", "(2, 2)"),
    "dtype that does not parse": npy("'f4,('", "(2, 2)"),
    "number as dtype": npy("3", "(2, 2)"),
    "code": npy("__import__('os').system('exit')", "(2, 2)"),
    "deep": npy("'<f4'", "(" + "-" * 6000 + "1,)"),
    "deep brackets": npy("'<f4'", "(" * 3000),
    "order is no bool": npy("'<f4'", "(2, 2)", order="2"),
    "no dictionary": b"\x93NUMPY\x01\0\x04\0[1]\n",
    "unhashable": b"\x93NUMPY\x01\0\x08\0{[1]:2}\n",
    "zeros in the header": b"\x93NUMPY\x01\0\x04\0\0\0\0\0",
    "not utf-8": b"\x93NUMPY\x03\0\x02\0\0\0\xff\xfe",
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_files(content, tmp_path, capsys):
    path = tmp_path / "x.npy"
    path.write_bytes(content)
    for argv in (
        ["info", str(path)],
        ["verify", str(path)],
        ["convert", str(path), str(tmp_path / "y.npy"), "--from", "NC", "--to", "CN"],
        ["convert", str(path), str(path), "--from", "NC", "--to", "CN", "--force"],
    ):
        assert main(argv) == 1
        assert str(path) in error_line(capsys)
    assert path.read_bytes() == content
    assert [p.name for p in tmp_path.iterdir()] == ["x.npy"]


@pytest.mark.parametrize("command", ["info", "verify"])
def test_files_that_are_none(command, tmp_path, capsys):
    assert main([command, str(tmp_path)]) == 1
    assert "Is a directory" in error_line(capsys)
    assert main([command, str(tmp_path / "none.npy")]) == 1
    assert "No such file" in error_line(capsys)
    assert main([command, "nul\0.npy"]) == 1
    error_line(capsys)
    os.mkfifo(tmp_path / "pipe.npy")
    assert main([command, str(tmp_path / "pipe.npy")]) == 1
    assert "not a regular file" in error_line(capsys)


def test_file_without_permission(tmp_path, capsys):
    path = saved(tmp_path / "x.npy", counted((2, 3)))
    assert main(["info", path]) == 0  # imports all it needs, as long as this user is itself
    capsys.readouterr()
    os.chmod(path, 0)
    user = os.geteuid()
    try:
        if user == 0:
            os.seteuid(65534)  # root reads everything, so become nobody
        assert main(["info", path]) == 1
    finally:
        os.seteuid(user)
    assert "Permission denied" in error_line(capsys)


# ---- info ----


def info(capsys: pytest.CaptureFixture[str], path: str) -> dict[str, str]:
    assert main(["info", path]) == 0
    return dict(line.split(maxsplit=1) for line in capsys.readouterr().out.replace("dense in", "dense").splitlines())


def test_info(tmp_path, capsys):
    path = saved(tmp_path / "x.npy", counted((2, 3, 4, 5)))
    found = info(capsys, path)
    assert found["file"] == f"{path}, 608 bytes"
    assert found["shape"] == "(2, 3, 4, 5)"
    assert found["dtype"] == "float32"
    assert found["strides"] == "(240, 80, 20, 4) bytes"
    assert found["order"] == "C"
    assert found["size"] == "120 elements, 480 bytes"
    assert found["dense"] == found["suggestion"] == "contiguous_format"


def test_info_of_other_orders(tmp_path, capsys):
    found = info(capsys, saved(tmp_path / "f.npy", np.asfortranarray(counted((2, 3, 4, 5)))))
    assert found["order"] == "Fortran"
    assert found["strides"] == "(4, 8, 24, 96) bytes"
    assert found["dense"] == "no memory format of its rank"
    found = info(capsys, saved(tmp_path / "one.npy", counted((2, 1, 4, 5))))
    assert found["dense"] == "channels_last, contiguous_format"
    found = info(capsys, saved(tmp_path / "3d.npy", counted((2, 1, 4, 5, 6))))
    assert found["dense"] == "channels_last_3d, contiguous_format"


@pytest.mark.parametrize("extent", [(), (7,), (3, 4), (1, 2, 1, 2, 1, 2)])
def test_info_of_other_ranks(extent, tmp_path, capsys):
    found = info(capsys, saved(tmp_path / "x.npy", counted(extent)))
    assert found["dense"] == f"memory formats are defined for 3, 4 and 5 axes, not for {len(extent)}"
    assert "suggestion" not in found


def test_info_of_raw_bytes(tmp_path, capsys):
    found = info(capsys, saved(tmp_path / "x.npy", counted((2, 3), "uint16").view("V2")))
    assert found["dtype"].startswith("|V2: raw bytes")


def test_info_reads_no_data(tmp_path, capsys):
    """From a sparse file of 64 GiB."""
    path = tmp_path / "x.npy"
    with open(path, "wb") as file:
        file.write(npy("'|u1'", f"(1, {2**36})", data=b""))
        try:
            file.truncate(file.tell() + 2**36)
        except OSError:
            pytest.skip("no sparse files here")
    assert info(capsys, str(path))["size"] == f"{2**36:,} elements, {2**36:,} bytes"


# ---- verify ----


@pytest.mark.parametrize(
    ("extent", "named"),
    [
        ((20, 28), ["FRACTAL_NZ", "FRACTAL_ZZ", "FRACTAL_ZN", "FRACTAL_NN"]),
        ((3, 20, 28), ["NLC", "FRACTAL_NZ"]),
        ((2, 20, 5, 3), ["NHWC", "NC1HWC0", "NC1HWC0_C04", "FRACTAL_Z", "FRACTAL_NZ"]),
        ((2, 20, 5, 3, 4), ["NDHWC", "NDC1HWC0", "FRACTAL_Z_3D", "FRACTAL_NZ"]),
        ((2, 1, 2, 3, 4, 5), ["FRACTAL_NZ"]),
    ],
)
@pytest.mark.parametrize("order", ["C", "F"])
def test_verify(extent, named, order, tmp_path, capsys):
    path = saved(tmp_path / "x.npy", np.asarray(counted(extent, "uint8"), order=order))
    assert main(["verify", path]) == 0
    lines = capsys.readouterr().out.splitlines()[1:]
    assert {*named} <= {line.split()[0] for line in lines}
    assert all(line.endswith(" ok") for line in lines)


def test_verify_named_formats(tmp_path, capsys):
    path = saved(tmp_path / "x.npy", counted((2, 5, 6, 19)))
    assert main(["verify", path, "--from", "NHWC", "--to", "NC1HWC0", "nChw8c", "--to", "CHWN", "--c0", "4"]) == 0
    lines = capsys.readouterr().out.splitlines()[1:]
    assert [line.split()[0] for line in lines] == ["NC1HWC0", "NCHW8c", "CHWN"]
    assert "(2, 5, 5, 6, 4) ok" in lines[0]


def test_verify_says_which_format_fails(tmp_path, capsys, monkeypatch):
    repack = lp.repack

    def broken(x: object, source: lp.Format, target: lp.Format, /, **keywords: object) -> np.ndarray:
        y = repack(x, source, target, **keywords)
        if source.name == "FRACTAL_Z":
            y[0, 0, 0, 0] += 1
        return y

    monkeypatch.setattr(lp, "repack", broken)
    path = saved(tmp_path / "x.npy", counted((2, 20, 5, 3)))
    assert main(["verify", path]) == 1
    failed = [line for line in capsys.readouterr().out.splitlines() if "FAILED" in line]
    assert len(failed) == 1
    assert failed[0].startswith("FRACTAL_Z ")


def test_verify_format_that_does_not_fit(tmp_path, capsys):
    path = saved(tmp_path / "x.npy", counted((20, 28)))
    assert main(["verify", path, "--to", "FRACTAL_NZ", "NC1HWC0"]) == 1
    fine, failed = capsys.readouterr().out.splitlines()[1:]
    assert fine.endswith(" ok")
    assert "FAILED" in failed
    assert main(["verify", path, "--from", "NCHW"]) == 1
    assert "--from NCHW does not name the axes" in error_line(capsys)
    path = saved(tmp_path / "vector.npy", counted((20,)))
    assert main(["verify", path]) == 1
    assert "at least 2 axes" in error_line(capsys)


# ---- bench ----


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--to", "NHWC"],
        ["--from", "NHWC", "--to", "FRACTAL_Z", "--c0", "4", "--n0", "2"],
        ["--from", "NC1HWC0", "--to", "NCHW", "--c0", "4"],
        ["--from", "ND", "--to", "FRACTAL_NZ", "--dtype", "int8", "--threads", "1"],
    ],
    ids=" ".join,
)
def test_bench(options, capsys):
    assert main(["bench", "--shape", "2,6,4,5", "--repeat", "2", *options]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[2:5]] == ["layoutpack", "NumPy", "memcpy"]
    assert lines[4].split()[-1] == "100%"


def test_bench_without_a_numpy_way(capsys):
    assert main(["bench", "--shape", "4,5,6", "--repeat", "1", "--from", "CHW"]) == 0
    assert "NumPy" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("order", "layout", "extent"),
    [
        ("NCHW", "NC1HWC0", (2, 35, 3, 4)),
        ("NHWC", "NC1HWC0", (2, 3, 4, 32)),
        ("NCHW", "FRACTAL_Z", (17, 20, 3, 2)),
        ("HWCN", "FRACTAL_Z", (2, 2, 32, 32)),
        ("DHWCN", "FRACTAL_Z_3D", (2, 2, 2, 17, 18)),
        ("ND", "FRACTAL_NZ", (2, 20, 28)),
        ("NCHW", "FRACTAL_ZN", (1, 2, 33, 17)),
        ("OIHW", "OIHW16i16o", (17, 18, 2, 3)),
        ("OIHW", "OIhw4i16o4i", (17, 18, 2, 3)),
        ("NCHW", "CHWN", (2, 3, 4, 5)),
    ],
)
def test_the_numpy_way_is_the_same_conversion(order, layout, extent):
    source, target = _cli.as_format(order), _cli.as_format(layout)
    x = _cli.noise(extent, np.dtype("u2"))
    y = lp.repack(x, source, target)
    packed, back = np.zeros_like(y), np.zeros_like(x)
    _cli.numpy_way(x, source, packed, target, packing=True)()
    np.testing.assert_array_equal(packed, y)
    _cli.numpy_way(back, source, y, target, packing=False)()
    np.testing.assert_array_equal(back, x)


# ---- demo ----

needs_demo = pytest.mark.skipif(
    any(importlib.util.find_spec(module) is None for module in ("matplotlib", "PIL")), reason="needs layoutpack[demo]"
)


def picture(path: Path, height: int, width: int, mode: str = "RGB") -> str:
    from PIL import Image

    pixels = np.random.default_rng(1).integers(0, 256, (height, width, len(mode)), np.uint8)
    Image.fromarray(pixels.squeeze(-1) if mode == "L" else pixels).save(path)
    return str(path)


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(_demo, "REPEATS", 1)


@needs_demo
@pytest.mark.parametrize(("height", "width"), [(1, 1), (37, 50), (640, 33)])
def test_demo_on_a_picture(height, width, quick, tmp_path, capsys):
    from PIL import Image

    path = picture(tmp_path / "noise.png", height, width)
    folder = tmp_path / "new" / "folder"
    assert main(["demo", "--image", path, "--output", str(folder)]) == 0
    out = capsys.readouterr().out
    for words in ("NHWC -> NC1HWC0", "FRACTAL_NZ", "channels-last", f"(1, {height}, {width}, 3)", "ms", str(folder)):
        assert words in out

    with Image.open(path) as opened:
        pixels = np.asarray(opened)
    planes = pixels.transpose(2, 0, 1)
    same(folder / "nc1hwc0.npy", nc1hwc0(planes[None], 32))
    same(folder / "fractal_nz.npy", np.stack([fractal_nz(plane, 16, 32) for plane in planes]))
    same(folder / "channels_last.npy", pixels[None])
    values = (planes / 255 - np.reshape(_demo.MEAN, (3, 1, 1))) / np.reshape(_demo.STD, (3, 1, 1))
    np.testing.assert_allclose(np.load(folder / "normalised.npy"), values[None], rtol=0, atol=1e-6)
    with Image.open(folder / "layoutpack-demo.png") as drawn:
        drawn.load()
        assert drawn.width > 1000
    assert len(list(folder.iterdir())) == 5


@needs_demo
def test_demo_on_the_default_photograph(quick, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["demo"]) == 0
    assert "grace_hopper.jpg" in capsys.readouterr().out
    packed = np.load(tmp_path / "layoutpack-demo" / "nc1hwc0.npy")
    assert packed.shape == (1, 1, 600, 512, 32)
    assert packed[..., :3].std() > 50  # a photograph, not a blank
    assert not packed[..., 3:].any()
    assert (tmp_path / "layoutpack-demo" / "layoutpack-demo.png").stat().st_size > 100_000


@needs_demo
@pytest.mark.parametrize("mode", ["L", "RGBA"])
def test_photographs_become_rgb(mode, tmp_path):
    name, photo = _demo.load_photograph(Path(picture(tmp_path / "x.png", 5, 7, mode)))
    assert (name, photo.shape, photo.dtype) == ("x.png", (5, 7, 3), np.uint8)


@needs_demo
def test_photographs_stand_upright(tmp_path):
    from PIL import Image

    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned by a quarter
    Image.new("RGB", (16, 8)).save(tmp_path / "x.jpg", exif=exif)
    assert _demo.load_photograph(tmp_path / "x.jpg")[1].shape == (16, 8, 3)


@needs_demo
def test_demo_without_an_image(tmp_path, capsys):
    path = tmp_path / "x.png"
    folder = tmp_path / "out"
    argv = ["demo", "--image", str(path), "--output", str(folder)]
    assert main(argv) == 1
    assert "No such file" in error_line(capsys)
    path.write_text("no picture")
    assert main(argv) == 1
    assert str(path) in error_line(capsys)
    picture(path, 40, 50)
    path.write_bytes(path.read_bytes()[:-3000])
    assert main(argv) == 1
    error_line(capsys)
    assert not folder.exists()


@needs_demo
def test_demo_that_cannot_write(quick, tmp_path, capsys):
    path = picture(tmp_path / "x.png", 4, 5)
    assert main(["demo", "--image", path, "--output", path]) == 1
    assert "File exists" in capsys.readouterr().err


@needs_demo
@pytest.mark.parametrize(
    ("function", "title"),
    [
        ("to_nc1hwc0", "NHWC -> NC1HWC0: the result differs from the NumPy formula"),
        ("from_fractal_nz", "3 planes -> FRACTAL_NZ: the way back does not give the original bytes"),
        ("to_channels_last", "NCHW -> channels-last: the result differs from the NumPy formula"),
        ("pack_images", "HWC -> NCHW, normalised: the result differs from the NumPy formula"),
    ],
)
def test_demo_that_finds_a_difference(function, title, tmp_path, monkeypatch, capsys):
    right = getattr(lp, function)

    def wrong(*args: object, **keywords: object) -> np.ndarray:
        y = right(*args, **keywords)
        y[(0,) * y.ndim] -= 1
        return y

    monkeypatch.setattr(lp, function, wrong)
    path = picture(tmp_path / "x.png", 4, 5)
    assert main(["demo", "--image", path, "--output", str(tmp_path / "out")]) == 1
    assert f"layoutpack: FAILED: {title}\n" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@needs_demo
def test_demo_finds_right_values_in_the_wrong_memory(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(lp, "to_channels_last", lambda x, **keywords: x)
    path = picture(tmp_path / "x.png", 4, 5)
    assert main(["demo", "--image", path, "--output", str(tmp_path / "out")]) == 1
    assert "channels-last: the result differs" in capsys.readouterr().err


@pytest.mark.parametrize("module", ["matplotlib", "PIL"])
def test_missing_extra(module, tmp_path, monkeypatch, capsys):
    for name in [name for name in sys.modules if name.partition(".")[0] == module]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    assert main(["demo", "--output", str(tmp_path / "out")]) == 1
    assert error_line(capsys).endswith('install them with: pip install "layoutpack[demo]"\n')
    assert not (tmp_path / "out").exists()


def test_the_other_commands_need_no_extra():
    script = (
        "import sys, layoutpack._cli;"
        "sys.exit(any(name.partition('.')[0] in ('matplotlib', 'PIL') for name in sys.modules))"
    )
    assert python("-c", script).returncode == 0
