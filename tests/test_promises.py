"""Every test that docs/promises.md names exists."""

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parent
PROMISES = TESTS.parent / "docs" / "promises.md"


def named():
    """Pairs of file and test, line by line; a test without a file is in the file before."""
    for line in PROMISES.read_text().splitlines():
        file = None
        for given, test in re.findall(r"`(test_\w+\.py)?::(\w+)`", line):
            file = given or file
            yield file, test


def test_the_promises_name_tests_that_exist():
    pairs = set(named())
    assert len(pairs) > 50
    for file in {file for file, _ in pairs}:
        tree = ast.parse((TESTS / file).read_text())
        there = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert {test for name, test in pairs if name == file} <= there, file


def test_every_promise_names_a_test():
    rows = [line for line in PROMISES.read_text().splitlines() if line.startswith("| ")]
    promises = [row for row in rows if row not in ("| promise | held by |", "| --- | --- |")]
    assert len(promises) > 20
    assert all("::test_" in row for row in promises)
