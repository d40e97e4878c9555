"""As a program: a server's flags, parsed again and again in one process, with arguments nobody should type.

    python -m tests.support.flag_lines SERVER SEED

Exit code 0, and a JSON object of how many lines ended with which code; else the arguments that broke it.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import random
import sys
from collections import Counter

from absl import flags

from tests.support.bad_words import WORDS
from tfquiver.service.common_to_servers import server_flags

LINES = 150
ENOUGH = {
    "coordinator": ["--work_dir=w"],
    "dispatcher": ["--work_dir=w", "--coordinator=h:1"],
    "extender": ["--coordinator=h:1"],
    "node": ["--cache_dir=c"],
    "operator": ["--coordinator=h:1"],
    "worker": ["--dispatcher=h:1", "--node_dir=n"],
}


def drawn(rng: random.Random, enough: list[str], names: list[str]) -> list[str]:
    arguments = list(rng.choice([[], enough]))
    for _ in range(rng.randint(0, 4)):
        flag = f"--{rng.choice(names)}"
        word = rng.choice(WORDS)
        arguments += rng.choice([[f"{flag}={word}"], [flag, word], [flag], [word], [f"--no{flag[2:]}"], ["--" + word]])
    return arguments


def main() -> None:
    server, seed = sys.argv[1:]
    module = importlib.import_module(f"tfquiver.service.{server}.main")
    if server == "node":  # the others define theirs when they are imported
        module.define_flags()
    parse = server_flags.parser(module.__doc__)
    own = server_flags.own()
    names = [flag.name for flag in own]
    sure = [[f"--{flag.name}={bad}"] for flag in own if flag.flag_type() == "float" for bad in ("nan", "inf", "-inf")]
    sure += [[f"--{flag.name}={'9' * 400}"] for flag in own if flag.flag_type() == "int"]
    rng = random.Random(int(seed))
    codes: Counter[int] = Counter()
    for number, arguments in enumerate([*sure, *(drawn(rng, ENOUGH[server], names) for _ in range(LINES))]):
        flags.FLAGS.unparse_flags()
        for flag in own:
            flag.unparse()
        out, err = io.StringIO(), io.StringIO()
        code = 0
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                parse([f"tfquiver-{server}", *arguments])
        except SystemExit as stopped:
            code = int(stopped.code or 0)
        lines = err.getvalue().splitlines()
        assert code in (0, 2), arguments
        if code:
            assert len(lines) == 1 and lines[0].startswith(f"tfquiver-{server}: "), (arguments, lines)
        if number < len(sure):
            assert code == 2 and arguments[0].partition("=")[0][2:] in lines[0], (arguments, lines)
        codes[code] += 1
    print(json.dumps(codes))


if __name__ == "__main__":
    main()
