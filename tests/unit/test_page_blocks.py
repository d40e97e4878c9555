"""What is run of a page, and when its output is the one that it shows."""

from __future__ import annotations

import pytest

from tests.support.pages import Block, blocks, matches

PAGE = """# A page

<!-- hidden
made = 1
-->
<!-- run -->
```python
print(made)
```

```python
not_run()
```

* in a list:

  <!-- run, with two for /ssd/two -->
  ```sh
  echo /ssd/two
  ```

<!-- output -->
```text
1
two
```

<!-- file trial.py -->
```python
import sys
```
"""


def test_what_is_marked_is_found_with_its_line() -> None:
    found = list(blocks(PAGE))
    assert found == [
        Block("python", 4, "made = 1"),
        Block("python", 8, "print(made)"),
        Block("sh", 19, "echo two"),
        Block("output", 24, "1\ntwo"),
        Block("file", 30, "import sys\n", "trial.py"),
    ]
    lines = PAGE.split("\n")
    assert [lines[block.line - 1].strip() for block in found] == [
        "made = 1", "print(made)", "echo /ssd/two", "1", "import sys",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("page", "line"),
    [
        ("<!-- run -->\n\n```python\n```", "line 1"),
        ("<!-- run -->", "line 1"),
        ("<!-- file a.py -->", "line 1"),
        ("text\n<!-- run -->\n```yaml\n```", "line 3"),
        ("<!-- run -->\n```python\nx", "line 2"),
        ("<!-- hidden\nx = 1", "line 1"),
    ],
)
def test_a_mark_that_marks_nothing_is_an_error(page: str, line: str) -> None:
    with pytest.raises(ValueError, match=line):
        list(blocks(page))


@pytest.mark.parametrize(
    ("expected", "printed", "same"),
    [
        ("a\nb", "a  \nb\n\n", True),
        ("a\nb", "a\nc", False),
        ("a ... c", "a b b c", True),
        ("a\n...\nz", "a\nb\nc\nz", True),
        ("a.c", "abc", False),
        ("a", "a\nb", False),
    ],
)
def test_dots_stand_for_anything_and_nothing_else_does(expected: str, printed: str, same: bool) -> None:
    assert matches(expected, printed) is same
