"""Everything that the README shows at the prompt runs, and prints what it says."""

import doctest
import pathlib

README = pathlib.Path(__file__).parent.parent / "README.md"


def test_readme():
    results = doctest.testfile(str(README), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert results.attempted > 20
    assert results.failed == 0
