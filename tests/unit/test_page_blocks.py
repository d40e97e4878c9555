"""What is run of a page, and when its output is the one that it shows; all code is run, or says why not."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.support.page_blocks import Block, blocks
from tests.support.pages import commands, matches

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# Why code is not run, and how often: what is added here is not known to be true.
NOT_RUN = {
    "installs packages": 6,
    "takes Kubernetes": 5,
    "takes containers": 3,
    "takes PyTorch with torchvision": 1,
    "takes Model Garden: tests/integration/test_model_garden.py": 1,
    "docs/guide/cluster.md has them, and they are run there": 1,
    "tests/integration/test_flag_files_start.py starts them so": 1,
    "tests/fault/test_keras_resume.py kills it, and runs it again": 1,
}
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

  <!-- run, with two for /ssd/two, "2>&1 | cat" for "| more" -->
  ```sh
  echo /ssd/two | more
  ```

<!-- run until Ready, with 0 for 5040 -->
```sh
server --port=5040
```

<!-- not run: it takes a ship -->
```sh
sail
```

```
$ sail
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
        Block("code", 12, "not_run()"),
        Block("sh", 19, "echo two 2>&1 | cat"),
        Block("sh", 24, "server --port=0", until="Ready"),
        Block("not run", 29, "sail", "it takes a ship"),
        Block("code", 33, "$ sail"),
        Block("output", 38, "1\ntwo"),
        Block("file", 44, "import sys\n", "trial.py"),
    ]
    lines = PAGE.split("\n")
    assert [lines[block.line - 1].strip() for block in found] == [
        "made = 1", "print(made)", "not_run()", "echo /ssd/two | more", "server --port=5040", "sail", "$ sail", "1",
        "import sys",
    ]  # fmt: skip


def test_what_stands_for_a_text_is_of_the_environment_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEAD", "localhost:1")
    page = "<!-- run, with $HEAD for head:5040 -->\n```{}\nx('head:5040')\n```"
    assert [block.text for block in blocks(page.format("python"))] == ["x('localhost:1')"]
    assert [block.text for block in blocks(page.format("sh"))] == ["x('$HEAD')"], "bash does it"


def test_commands_that_go_on_are_lines() -> None:
    assert list(commands("# on head\na --b \\\n  --c\n\nd &\n")) == ["a --b  --c", "d &"]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_all_code_is_run_or_says_why_not(path: Path) -> None:
    unmarked = [f"{path.name}:{block.line}" for block in blocks(path.read_text()) if block.kind == "code"]
    assert not unmarked, "mark it: <!-- run -->, or <!-- not run: REASON -->; see tests/support/page_blocks.py"


def test_what_is_not_run_is_known() -> None:
    found = [block.name for path in PAGES for block in blocks(path.read_text()) if block.kind == "not run"]
    assert Counter(found) == NOT_RUN
    named = re.findall(r"(?:tests|docs)/[\w./-]+\w", " ".join(NOT_RUN))
    assert len(named) > 3 and all((ROOT / name).exists() for name in named)


@pytest.mark.parametrize(
    ("page", "line"),
    [
        ("<!-- run -->\n\n```python\n```", "line 1"),
        ("<!-- run -->", "line 1"),
        ("<!-- file a.py -->", "line 1"),
        ("text\n<!-- run -->\n```yaml\n```", "line 3"),
        ("<!-- run -->\n```python\nx", "line 2"),
        ("<!-- hidden\nx = 1", "line 1"),
        ("<!-- run until x -->\n```python\n```", "line 2"),
        ("<!-- run, with a for b -->\n```sh\nc\n```", "line 2"),
        ("<!-- not run: why -->\n\n```sh\n```", "line 1"),
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
