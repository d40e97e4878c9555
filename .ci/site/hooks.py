"""What MkDocs does not find under docs/: the README as front page, and the pages that are made from the code."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT), str(HERE)]

import calls_page  # noqa: E402
import metrics_page  # noqa: E402
import reference  # noqa: E402


def on_files(files: Files, config: Any) -> Files:
    made = {
        "index.md": _front((ROOT / "README.md").read_text()),
        "changelog.md": (ROOT / "CHANGELOG.md").read_text(),
        "decisions/index.md": _decisions(),
        "reference/api.md": reference.api(),
        "reference/cli.md": reference.command_line(),
        "reference/metrics.md": metrics_page.page(),
        "reference/calls.md": calls_page.page(),
    }
    for path, text in made.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """What a repository's browser shows and the site does not have: a folder's list, and the README from below."""
    markdown = re.sub(r"\]\(((?:\.\./)*decisions)/\)", r"](\1/index.md)", markdown)
    return markdown.replace("](../../README.md", "](../index.md").replace("](../../CHANGELOG.md", "](../changelog.md")


def _front(readme: str) -> str:
    """Links of the README are relative to the repository, those of the site to docs/."""
    return re.sub(r"\]\((?:docs/|(CHANGELOG)\.md)", lambda found: "](changelog.md" if found[1] else "](", readme)


def _decisions() -> str:
    lines = ["# Decisions", "", "What was chosen, what else there was, and why.", ""]
    for path in sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md")):
        title = path.read_text().split("\n", 1)[0].removeprefix("# ")
        lines.append(f"* [{title}]({path.name})")
    return "\n".join(lines) + "\n"
