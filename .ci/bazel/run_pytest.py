"""A py_test's main: hands its arguments to pytest."""

import sys

import pytest

sys.exit(pytest.main(["-p", "no:cacheprovider", *sys.argv[1:]]))
