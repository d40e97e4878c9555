"""What reads gs:// is not installed with tfquiver: who names its URIs is told what is missing."""

from __future__ import annotations

import subprocess
import sys

WITHOUT = """
import sys
sys.modules["google.auth"] = None  # as good as not installed
from tfquiver import errors, stores
from tfquiver.data_sources_found_and_registered.listed import listed
for ask in (lambda: listed("gs://bucket/train-*"), lambda: stores.for_uri("gs://bucket/train-0")):
    try:
        ask()
    except errors.InvalidArgumentError as error:
        print(error)
"""


def test_an_error_names_the_extra() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines() == ["no store for gs:// here: pip install '.[gcs]' in a clone of tfquiver"] * 2
