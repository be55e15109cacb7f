"""Hashes of storage that independent implementations of the formats produced."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

import layoutpack as lp
import reference
from guard import assert_same

GOLDEN = json.loads((Path(__file__).parent / "golden" / "storage_formats.json").read_text())
ROWS = GOLDEN["vectors"]

# How many rows each format has. Every row of the file belongs to exactly one of the three groups.
READY = {"NC1HWC0": 27, "NC1HWC0_C04": 15, "NDC1HWC0": 15, "FRACTAL_NZ": 15}
GROUPED = {"FRACTAL_Z": 15}
LATER = {"FRACTAL_Z_C04": 2, "C1HWNCoC0": 12}


def rows(formats, *, grouped=False):
    return [row for row in ROWS if row["format"] in formats and (row["groups"] > 1) is grouped]


def name(row):
    return "-".join(map(str, (row["format"], row["dtype"], *row["shape"], f"g{row['groups']}")))


each_ready = pytest.mark.parametrize("row", rows(READY), ids=name)
each_grouped = pytest.mark.parametrize("row", rows(GROUPED, grouped=True), ids=name)


def source(row):
    """The input of a row: i % 251 + 1, for int8 i % 127 + 1, in the order of the row's source layout."""
    period = 127 if row["dtype"] == "int8" else 251
    return (np.arange(np.prod(row["shape"])) % period + 1).astype(row["dtype"]).reshape(row["shape"])


def digest(storage):
    return hashlib.sha256(storage.astype(storage.dtype.newbyteorder("<")).tobytes()).hexdigest()


def test_every_row_is_accounted_for():
    for group, grouped in ((READY, False), (GROUPED, True), (LATER, False)):
        for fmt, count in group.items():
            assert len(rows({fmt}, grouped=grouped)) == count, fmt
    assert sum((READY | GROUPED | LATER).values()) == len(ROWS) == 101


@each_ready
def test_oracle(row):
    storage = reference.pack(source(row), row["format"], row["source"], c0=row["storage_shape"][-1])
    assert (list(storage.shape), digest(storage)) == (row["storage_shape"], row["sha256"])


@each_ready
def test_pack(row):
    x = source(row)
    for storage in (
        lp.repack(x, row["source"], row["format"]),
        getattr(lp, f"to_{row['format'].lower()}")(x, src=row["source"]),
    ):
        assert (list(storage.shape), digest(storage)) == (row["storage_shape"], row["sha256"])
    assert list(lp.packed_shape(row["shape"], row["format"], dtype=row["dtype"])) == row["storage_shape"]


@each_ready
def test_unpack(row):
    x = source(row)
    storage = reference.pack(x, row["format"], row["source"], c0=row["storage_shape"][-1])
    assert_same(lp.repack(storage, row["format"], row["source"], shape=x.shape), x)
    assert_same(getattr(lp, f"from_{row['format'].lower()}")(storage, shape=x.shape, dst=row["source"]), x)


@each_grouped
def test_groups_are_refused(row):
    x = source(row)
    with pytest.raises(ValueError, match=rf"(?is)groups.*{row['groups']}|{row['groups']}.*groups"):
        lp.repack(x, row["source"], row["format"], groups=row["groups"])
    storage = np.zeros(row["storage_shape"], row["dtype"])
    with pytest.raises(ValueError, match=rf"(?is)groups.*{row['groups']}|{row['groups']}.*groups"):
        lp.repack(storage, row["format"], row["source"], shape=x.shape, groups=row["groups"])


@pytest.mark.parametrize("fmt", ["FRACTAL_NZ", "FRACTAL_ZZ", "FRACTAL_ZN", "FRACTAL_NN"])
@pytest.mark.parametrize("length", [0, 1, 5, 16, 17])
def test_a_vector_is_not_a_matrix(fmt, length):
    """Implementations disagree on whether n numbers are a row or a column, so the caller has to say."""
    with pytest.raises(ValueError, match=rf"{fmt}.*\b2 axes.*\b1\b"):
        lp.repack(np.zeros(length, np.float16), "ND", fmt)
    row = lp.repack(np.ones((1, length), np.float16), "ND", fmt)
    column = lp.repack(np.ones((length, 1), np.float16), "ND", fmt)
    assert row.sum() == column.sum() == length
