"""Who may include whom in ops/: what import-linter is for Python."""

from __future__ import annotations

import re
from collections import defaultdict
from graphlib import TopologicalSorter
from pathlib import Path

OPS = Path(__file__).resolve().parents[2] / "ops"
INCLUDE = re.compile(r'^#include "ops/([^"]+)"$', re.MULTILINE)
TYPE = re.compile(r"^(?:class|struct|enum class) (\w+)(?: final)?(?: :[^;{]*)? ?\{", re.MULTILINE)
NAMELESS = re.compile(r"^namespace \{\n.*?^\}  // namespace\n", re.MULTILINE | re.DOTALL)
# From low to high: a folder includes those before it and itself. ops/core/README.md has the same list.
CORE = (
    "", "told_by_python", "bytes_checksums_tfrecords", "example_parsing", "reader_throughput_and_waits",
    "node_messages_socket_tickets", "element_messages_handshake_sockets", "element_client_and_server",
    "progress_and_checkpoints", "record_memory", "shuffle_pool_and_order", "shard_loading", "delivered_records",
    "reader_and_its_conversation_with_the_node",
)  # fmt: skip


def sources() -> dict[str, list[str]]:
    """Path under ops/ -> what it includes of ops/, of all C++ but tests."""
    found = [*OPS.rglob("*.cc"), *OPS.rglob("*.h")]
    return {
        str(path.relative_to(OPS)): INCLUDE.findall(path.read_text())
        for path in found
        if not path.name.endswith("_test.cc") and not path.name.startswith("test_")
    }


def core_folder(path: str) -> str | None:
    parts = Path(path).parts
    return None if parts[0] != "core" else "/".join(parts[1:-1])


def test_every_include_is_there() -> None:
    assert sources()
    assert {name for names in sources().values() for name in names if not (OPS / name).is_file()} == set()


def test_a_type_has_its_name_alone() -> None:
    """Two of one name in one library are one to the linker, which takes the destructor of either for both."""
    found = defaultdict[str, set[str]](set)
    for path in (*OPS.rglob("*.h"), *OPS.rglob("*.cc")):
        for name in TYPE.findall(NAMELESS.sub("", path.read_text())):
            found[name].add(path.name)
    assert len(found) > 100
    assert {name: paths for name, paths in found.items() if len(paths) > 1} == {}


def test_headers_do_not_include_one_another_in_a_circle() -> None:
    TopologicalSorter(sources()).prepare()  # raises CycleError, which names the circle


def test_core_folders_include_lower_ones_only() -> None:
    wrong = []
    for path, names in sources().items():
        folder = core_folder(path)
        if folder is None:
            continue
        allowed = CORE[: CORE.index(folder) + 1]
        wrong += [f"{path}: {name}" for name in names if core_folder(name) not in allowed]
    assert wrong == []


def test_folders_say_what_they_are_for_and_stay_small() -> None:
    tops = [OPS / top for top in ("core", "tf", "tf_data_transfer_plugin", "reader_library_without_tensorflow")]
    folders = [folder for top in tops for folder in (top, *top.rglob("*")) if folder.is_dir()]
    assert len(folders) > 11
    for folder in folders:
        assert (folder / "README.md").is_file(), folder
        code = [path for path in folder.iterdir() if path.suffix in (".cc", ".h")]
        assert len([path for path in code if not path.name.endswith("_test.cc")]) <= 13, folder
