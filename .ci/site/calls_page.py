"""The reference page of gRPC calls, made from the protos' own comments and from the table of who may call what.

`python .ci/site/calls_page.py` prints it.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path

from tfquiver.roles_and_tokens.identity import CALLS

PROTOS = Path(__file__).resolve().parents[2] / "tfquiver" / "proto" / "tfquiver" / "v1"
_RPC = re.compile(r"rpc (\w+)\((.*?)\) returns \((.*?)\);")
_ABOUT = """# gRPC calls

What the servers answer, for programs that ask them without this package: schedulers, dashboards. The protos are in
`tfquiver/proto/tfquiver/v1`. Beside these, coordinator and nodes serve `grpc.health.v1.Health`
([health](../operations.md#health)). *For* says whose tokens may make the call, where tokens are asked for
([roles](../trust.md#roles)).
Frames of readers and between nodes are no gRPC: [protocols](../protocol.md).
"""


def page() -> str:
    lines = [_ABOUT]
    with_services, others = [], []
    for path in sorted(PROTOS.glob("*.proto")):
        (with_services if re.search(r"^service ", path.read_text(), re.MULTILINE) else others).append(path)
    for path in with_services:
        lines += _services(path)
    lines += ["## Shared messages", ""]
    for path in others:
        lines += [f"### {path.name}", "", _prose(_head(path.read_text())), "", *_messages(path.read_text())]
    return "\n".join(lines)


def _services(path: Path) -> Iterator[str]:
    text = path.read_text()
    for name, body in re.findall(r"^service (\w+) \{\n(.*?)^\}", text, re.DOTALL | re.MULTILINE):
        yield from (f"## {name}", "", _prose(_head(text)), "")
        said: list[str] = []
        shown = 0
        for line in body.split("\n"):
            if line.strip().startswith("//"):
                said.append(line)
            elif found := _RPC.search(line):
                call, takes, gives = found.groups()
                roles = ", ".join(sorted(CALLS.get(f"/tfquiver.v1.{name}/{call}", ()))) or "nobody"
                yield from (f"### {name}.{call}", "", f"`{takes}` → `{gives}` · for {roles}", "", _prose(said), "")
                said, shown = [], shown + 1
            elif not line.strip():
                said = []
        if shown != body.count(" rpc "):
            raise ValueError(f"{path}: {shown} calls of {name} are read, it has {body.count(' rpc ')}: one a line")
        yield from (f"### Messages of {name}", "", *_messages(text))


def _head(text: str) -> list[str]:
    return text.partition("syntax =")[0].strip().split("\n")


def _prose(comment: list[str]) -> str:
    return html.escape(" ".join(line.strip().removeprefix("//").strip() for line in comment), quote=False)


def _messages(text: str) -> list[str]:
    """All that is neither a service nor about the file, as it stands in the proto."""
    body = re.sub(r"^service \w+ \{\n.*?^\}\n", "", text, flags=re.DOTALL | re.MULTILINE)
    body = re.sub(r"^(syntax|package|import|option) .*\n", "", body.partition("syntax =")[2], flags=re.MULTILINE)
    return ["```protobuf", body.partition("\n")[2].strip(), "```", ""]


if __name__ == "__main__":
    print(page())
