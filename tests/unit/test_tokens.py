"""Tokens: files of hashes, what a process shows, and where no token may be asked for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from absl import logging
from hypothesis import given
from hypothesis import strategies as st

from tests.support.aio import on_loop
from tfquiver import errors
from tfquiver.roles_and_tokens import own_token, tokens
from tfquiver.roles_and_tokens.identity import EVERYBODY, Identity, Role
from tfquiver.service.common_to_servers import serving


@contextmanager
def warnings(caplog: pytest.LogCaptureFixture) -> Iterator[list[str]]:
    said: list[str] = []
    logger = logging.get_absl_logger()
    was, logger.propagate = logger.propagate, True
    try:
        with caplog.at_level("WARNING"):
            yield said
    finally:
        logger.propagate = was
        said += [record.getMessage() for record in caplog.records]


@on_loop
async def test_a_made_token_is_known_by_its_line(tmp_path: Path) -> None:
    token, line = tokens.new_token(Role.JOB, "sweep")
    assert token not in line
    (tmp_path / "tokens").write_text(f"# people\n\n{line}  # until May\n")
    file = tokens.TokenFile(tmp_path / "tokens")
    assert await file.identify(token) == Identity(Role.JOB, "sweep")
    for wrong in ("", token[:-1], token + "x", line, tokens.hash_of(token).hex()):
        with pytest.raises(errors.UnauthenticatedError, match="--auth_token_file"):
            await file.identify(wrong)


@on_loop
async def test_a_shared_token_may_do_everything(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("")
    file = tokens.TokenFile(tmp_path / "tokens", "secret")
    assert await file.identify("secret") == EVERYBODY
    assert await tokens.SharedToken("secret").identify("secret") == EVERYBODY
    with pytest.raises(errors.UnauthenticatedError):
        await tokens.SharedToken("secret").identify("")


@on_loop
async def test_a_file_that_changes_is_read_again_and_a_wrong_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "_LOOK_S", 0.0)
    path = tmp_path / "tokens"
    token, line = tokens.new_token(Role.NODE, "rack1")
    path.write_text(line + "\n")
    file = tokens.TokenFile(path)
    path.write_text("nonsense\n")
    assert await file.identify(token) == Identity(Role.NODE, "rack1")
    path.unlink()
    assert await file.identify(token) == Identity(Role.NODE, "rack1")
    path.write_text("# nobody is left\n")
    with pytest.raises(errors.UnauthenticatedError):
        await file.identify(token)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("job sweep", "2 words"),
        ("root sweep " + "0" * 64, "role 'root'"),
        ("job a/b " + "0" * 64, "'a/b' is no name"),
        ("job sweep " + "0" * 63, "64 digits, not 63 characters"),
        ("job sweep " + "x" * 64, "its SHA-256 is 64 digits"),
        (f"job sweep {'0' * 64}\nadmin ann {'0' * 64}", "line 2: this token stands for another"),
    ],
)
def test_a_wrong_line_is_named(line: str, complaint: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=complaint) as raised:
        tokens.parse(line, "--tokens_file=t")
    assert str(raised.value).startswith("--tokens_file=t, line ")


@given(st.text())
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        tokens.parse(text, "t")
    except errors.InvalidArgumentError as error:
        assert str(error).startswith("t, line ")


def test_a_tokens_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_bytes(b"\xff\xfe\n")
    with pytest.raises(errors.InvalidArgumentError, match=f"--tokens_file={path}: it is not UTF-8"):
        tokens.TokenFile(path)
    with pytest.raises(errors.InvalidArgumentError, match="--tokens_file="):
        tokens.TokenFile(tmp_path / "none")
    with pytest.raises(errors.InvalidArgumentError, match="--tokens_file="):
        tokens.TokenFile(tmp_path)


def test_a_tokens_file_that_others_write_is_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "tokens"
    path.write_text("")
    path.chmod(0o666)
    with warnings(caplog) as said:
        file = tokens.TokenFile(path)
        for _ in range(3):
            file._looked_at = 0.0
            file.by_hash(b"")
    assert sum("can be written by others" in line for line in said) == 1, "not at each look"


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"\xff\xfe\n", "not ASCII"),
        (b"", "empty"),
        (b"  \nsecret\n", "empty"),
        (b"x" * 5000, "longer than"),
        (b"a\x1b[1m\n", "not printable"),
    ],
)
def test_a_token_that_cannot_be_is_named(tmp_path: Path, content: bytes, complaint: str) -> None:
    path = tmp_path / "token"
    path.write_bytes(content)
    with pytest.raises(errors.InvalidArgumentError, match=complaint) as raised:
        own_token.read_token(str(path))
    assert str(raised.value).startswith(f"--auth_token_file={path}")


@pytest.mark.parametrize("path", ["/nowhere/token", "/", "a\0b"])
def test_a_token_file_that_cannot_be_read_is_named(path: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="--auth_token_file="):
        own_token.read_token(path)


@pytest.mark.parametrize(("mode", "warned"), [(0o600, False), (0o640, False), (0o644, True)])
def test_a_token_that_everybody_can_read_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, mode: int, warned: bool
) -> None:
    path = tmp_path / "token"
    path.write_text("secret\n")
    path.chmod(mode)
    with warnings(caplog) as said:
        assert own_token.read_token(str(path)) == "secret"
    assert any("chmod 600" in line for line in said) == warned


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST", "127.0.0.1", "127.1.2.3", "::1", "[::1]"])
def test_this_machine_alone_needs_no_token(host: str, caplog: pytest.LogCaptureFixture) -> None:
    with warnings(caplog) as said:
        serving.check_exposure(host, "--tokens_file", False, False)
    assert any("every process of this machine" in line and "--tokens_file" in line for line in said)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "[::]", "10.0.0.1", "node7", "", "localhost.example", "0x7f.1"])
def test_other_machines_need_a_token_or_words(host: str, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="--allow_unauthenticated"):
        serving.check_exposure(host, "--tokens_file", False, False)
    serving.check_exposure(host, "--tokens_file", True, False)
    with warnings(caplog) as said:
        serving.check_exposure(host, "--tokens_file", False, True)
    assert any("--allow_unauthenticated" in line for line in said)


def test_a_user_shows_what_is_named_and_else_what_the_environment_names(tmp_path: Path) -> None:
    for name in ("given", "set"):
        (tmp_path / name).write_text(f"token of {name}\n")
        (tmp_path / name).chmod(0o600)
    environment = {"TFQUIVER_AUTH_TOKEN_FILE": str(tmp_path / "set")}
    assert own_token.of_user(tmp_path / "given", environment) == "token of given"
    assert own_token.of_user("", environment) == own_token.of_user(None, environment) == "token of set"
    assert own_token.of_user(None, {}) == own_token.of_user(None, {"TFQUIVER_AUTH_TOKEN_FILE": ""}) == ""
    with pytest.raises(errors.InvalidArgumentError, match=r"^TFQUIVER_AUTH_TOKEN_FILE=/no/such/file: No such file"):
        own_token.of_user(None, {"TFQUIVER_AUTH_TOKEN_FILE": "/no/such/file"})
    with pytest.raises(errors.InvalidArgumentError, match=r"^auth_token_file=/no/such/file: "):
        own_token.of_user("/no/such/file", environment)
    with pytest.raises(errors.InvalidArgumentError, match=r"^--auth_token_file=/no/such/file: "):
        own_token.of_user("/no/such/file", environment, "--auth_token_file")
