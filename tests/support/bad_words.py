"""Words for command lines: sizes, numbers, names and paths that break what takes them on trust."""

from __future__ import annotations

WORDS = [
    "", " ", "x", "-", "0", "1", "-1", "7", "1.5", "1e400", "nan", "inf", "-inf", "true", "9" * 400, "-" + "9" * 400,
    "9" * 5000, "999999999PiB", "10GiB", "1MB", "5 parsecs", "1" * 20 + "PB", "٣", "cooperative", "cooperative:",
    "cooperative:0", "cooperative:9" + "9" * 300, "lru:1GiB", "none", "full", "cyclic", "admin", "job", "x" * 5000,
    "[/red]", "[bold]x", ":smile:", "\x1b[31mred", "a\nb", "a\r\x08b", "\u202egnp.exe", "\udcff\udcfe", "é漢字", "\0",
    "%s%n", "$(id)", "--", "/", ".", "..", "/dev/null", "/dev/null/x", "/proc/self/mem", "binary", "none/such/file",
    "x/" * 300, "a" * 300, "localhost:1", "localhost:99999", "localhost:%port%", "h:0", "[::1]:1", "[::]", ":1",
    "unix:", "unix:/none/such", "unix:" + "x" * 300, "*", "[", "{a,b}", "file:///none", "nosuch://x/y",
    "--flagfile=binary",
]  # fmt: skip
