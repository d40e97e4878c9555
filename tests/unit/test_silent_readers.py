from __future__ import annotations

from tfquiver.service.node.unix_socket_clients.silent_readers import SilentReaders


def test_who_says_nothing_for_so_long_is_told_of_once() -> None:
    readers = SilentReaders[str](patience_s=60.0)
    readers.promises("stopped")
    readers.promises("alive")
    silent: dict[str, int] = {}
    for second in range(0, 300, 5):
        readers.heard("alive")
        silent.update(dict.fromkeys(readers.look(second), second))
    assert silent == {"stopped": 65}


def test_who_has_promised_nothing_may_be_silent() -> None:
    """Versions that do not ask whether a node takes reports make none."""
    readers = SilentReaders[str](patience_s=60.0)
    readers.heard("older")
    assert not [reader for second in range(0, 300, 5) for reader in readers.look(second)]


def test_who_has_gone_is_not_looked_for() -> None:
    readers = SilentReaders[str](patience_s=60.0)
    readers.promises("gone")
    readers.gone("gone")
    assert not [reader for second in range(0, 300, 5) for reader in readers.look(second)]


def test_time_in_which_the_node_itself_stood_still_is_not_the_readers() -> None:
    """What they said meanwhile waits in their sockets."""
    readers = SilentReaders[str](patience_s=60.0)
    readers.look(0.0)
    readers.promises("reader")
    assert not readers.look(3600.0)
    readers.heard("reader")
    assert not readers.look(3605.0)
