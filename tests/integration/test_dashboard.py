"""`tfquiver dashboard`: what it serves and to whom; and the page, in a browser, of a real cluster."""

from __future__ import annotations

import http.client
import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.support.browser import browser
from tests.support.cluster import Cluster, wait_until
from tests.support.dashboard_served import GIVE_UP_S, seen, served
from tests.support.digests import numbered_digest
from tfquiver.cli import calls
from tfquiver.cli.dashboard import command
from tfquiver.cli.dashboard.admission import MOST_CONNECTIONS
from tfquiver.cli.main import main
from tfquiver.cli.status_asked_watched_explained import sparing
from tfquiver.cli.status_asked_watched_explained.status import collect as status_collect
from tfquiver.cli.status_tables_and_warnings.money import Prices
from tfquiver.data_sources_found_and_registered.registration import Registrar

HOSTILE = "<img src=x onerror=alert(1)>\x1b[2J"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    root = tmp_path_factory.mktemp("dashboard")
    with Cluster(root / "cluster", workers=0) as made:
        numbered_digest(3, HOSTILE).save(root / "one.tfqd")
        with Registrar(made.coordinator.address, None, "", 20.0) as registrar:
            registrar.digest(root / "one.tfqd")
        yield made


def asked(link: str, path: str, cookie: str = "", method: str = "GET") -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection(urlsplit(link).netloc, timeout=30)
    try:
        connection.request(method, path, headers={"Cookie": cookie} if cookie else {})
        answer = connection.getresponse()
        body = answer.read() if answer.headers["Content-Type"] != "text/event-stream" else answer.readline()
        return answer.status, dict(answer.headers), body
    finally:
        connection.close()


def test_who_opens_connections_and_asks_for_nothing_keeps_nobody_away_for_long(cluster: Cluster) -> None:
    with served(cluster.coordinator.address) as link, ExitStack() as held:
        where = urlsplit(link)

        def has_place() -> bool:
            try:
                return asked(link, f"/?{where.query}")[0] == 303
            except (ConnectionError, http.client.HTTPException):
                return False

        for number in range(MOST_CONNECTIONS):
            silent = held.enter_context(socket.create_connection((where.hostname, where.port), 30))
            if number % 2:
                silent.sendall(b"GET / HTTP/1.1\r\nX-Slow: ")
        wait_until(lambda: not has_place(), "there is room for so many and no more")
        wait_until(has_place, "those are let go", 60)


def test_who_has_the_link_sees_and_nobody_else(cluster: Cluster) -> None:
    with served(cluster.coordinator.address) as link:
        assert link.startswith("http://127.0.0.1:")
        query = urlsplit(link).query
        for path in ("/", "/app.js", "/events", "/past", "/?key=wrong", "/?key=%C3%A9%ff"):
            status, headers, body = asked(link, path)
            assert status == 403 and b"the key is in it" in body
            assert "default-src 'none'" in headers["Content-Security-Policy"]
        status, headers, _ = asked(link, f"/?{query}")
        assert status == 303 and headers["Location"] == "/", "the key does not stay in the address"
        assert "HttpOnly" in headers["Set-Cookie"] and "SameSite=Lax" in headers["Set-Cookie"]
        cookie = headers["Set-Cookie"].partition(";")[0]
        for path in ("/", "/app.js", "/app.css"):
            status, headers, body = asked(link, path, cookie)
            assert status == 200 and body and headers["X-Content-Type-Options"] == "nosniff"
        status, headers, line = asked(link, "/events", cookie)
        told = json.loads(line.removeprefix(b"data: "))
        assert told["coordinator"] == cluster.coordinator.address and len(told["nodes"]) == 1
        assert [one["name"] for one in told["datasets"]] == [HOSTILE]
        for span in ("hour", "day"):
            past = json.loads(asked(link, f"/past?span={span}&job=nobody&dataset={'0' * 64}", cookie)[2])
            assert {"cluster", "jobs", "epochs", "heat", "decisions"} <= past.keys()
        assert asked(link, "/past?dataset=zz", cookie)[0] == 400
        assert asked(link, "/../pyproject.toml", cookie)[0] == 404
        for method in ("POST", "PUT", "DELETE"):
            assert asked(link, "/past", cookie, method)[0] == 405, "it is for reading"


def test_a_look_that_asks_no_node_tells_what_nodes_said_last(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparing, "FEW", 0)
    asked = list[bool]()

    def collect(thorough: bool) -> dict[str, Any]:
        asked.append(thorough)
        return status_collect(cluster.coordinator.address, thorough=thorough)

    seldom = sparing.Sparing(collect, Prices())
    first, second = seldom.collect(), seldom.collect()
    assert asked == [True, False]
    for key in ("problems", "hit_ratio", "saved", "hits", "served_bytes", "going_on", "datasets"):
        assert first[key] == second[key], key
    [before], [after] = first["nodes"], second["nodes"]
    assert before.keys() == after.keys() and "incarnation" in after


def test_a_key_of_ones_own_is_long_enough(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "key").write_text("short\n")
    assert main(["dashboard", "localhost:1", "--key_file", str(tmp_path / "key")]) == 1
    assert "--key_file" in capsys.readouterr().err
    assert main(["dashboard", "localhost:1", "--key_file", str(tmp_path / "none")]) == 1
    assert capsys.readouterr().err.startswith("tfquiver: --key_file=")
    for listen in ("nowhere", "localhost:x", "localhost:65536", "localhost:-1"):
        assert main(["dashboard", "localhost:1", "--listen", listen]) == 1
        assert capsys.readouterr().err == f"tfquiver: --listen: '{listen}' is not host:port, as in localhost:8080\n"


def test_nothing_is_served_of_what_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """There was a link, and nothing behind it."""
    monkeypatch.setattr(calls, "CALL_S", 0.1)
    monkeypatch.setattr(command, "_serve", None)
    monkeypatch.chdir(tmp_path)
    for where, said in (
        ("localhost:1", "coordinator localhost:1 does not answer within 0.1 s: nobody listens there"),
        ("cahce", "'cahce' is neither host:port nor a directory that is there"),
        (".", "no node runs in ."),
    ):
        assert main(["dashboard", where]) == 1
        told = capsys.readouterr()
        assert told.out == "" and told.err.startswith(f"tfquiver: {said}")


def test_the_page_in_a_browser(cluster: Cluster, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("a-key-that-stays-the-same\n")
    with served(cluster.coordinator.address, "--key_file", str(key)) as link, browser() as driver:
        driver.get(link)
        seen(driver, "figures", lambda text: "of the shards since the nodes were started" in text)
        assert "key=" not in driver.current_url
        plain = driver.current_url.partition("#")[0]
        names = driver.execute_script("return [...document.querySelectorAll('nav button')].map(one => one.textContent)")
        assert names == ["Overview", "Jobs", "Data sets", "Nodes", "Decisions"]
        driver.execute_script("document.querySelectorAll('nav button')[3].focus()")
        driver.switch_to.active_element.send_keys("\n")  # by the keyboard
        text = seen(driver, "nodes", lambda text: "host" in text and "used" in text)
        assert driver.current_url.endswith("#tab=nodes"), "a link to what is seen"
        assert cluster.node is not None and cluster.node.ready["node_id"].rpartition("-")[2][:8] in text
        driver.get(f"{plain}#tab=data&find=img")
        driver.refresh()
        text = seen(driver, "data sets", lambda text: "onerror" in text)
        assert "<img src=x onerror=alert(1)>" in text, "names are text"
        unnamed = driver.execute_script(
            "return [...document.querySelectorAll('button, input, canvas, [role=table]')]"
            ".filter(one => !one.getAttribute('aria-label') && !one.textContent.trim()).length"
        )
        assert unnamed == 0, "a screen reader has a name for each"
        assert [entry for entry in driver.get_log("browser") if entry["level"] == "SEVERE"] == []


CUT_BARS = """
return [...document.querySelectorAll('.bar')].filter(
  bar => bar.querySelector('b').getBoundingClientRect().right > bar.getBoundingClientRect().right
).map(bar => bar.textContent)
"""
LEGEND = "return document.querySelector('.u-legend').innerText"


@pytest.mark.long
def test_a_phones_width_is_enough(cluster: Cluster) -> None:
    with served(cluster.coordinator.address) as link, browser(390, 844, True) as driver:
        for tab in ("overview", "jobs", "data", "nodes", "decisions"):
            driver.get(link)
            driver.get(f"{driver.current_url.partition('#')[0]}#tab={tab}")
            seen(driver, "it is there", lambda text: "asking" not in text)
            assert driver.execute_script("return document.documentElement.scrollWidth") <= 390, tab
            tabs = "const its = document.querySelector('nav'); return its.scrollWidth - its.clientWidth"
            assert driver.execute_script(tabs) <= 0, "no tab is cut off"
            assert driver.execute_script(CUT_BARS) == [], tab
            if tab == "overview":
                wait_until(lambda: "B/s" in driver.execute_script(LEGEND), "the newest, where nobody points", 60)
                assert "".join(driver.execute_script(LEGEND).split()).startswith("atnowwithoutacache")
            colours = "return getComputedStyle(document.body).backgroundColor"
            assert driver.execute_script(colours) == "rgb(18, 22, 20)", f"{tab}: dark, as the system is"


def test_a_cluster_that_is_away_is_said_and_found_again(tmp_path: Path) -> None:
    with Cluster(tmp_path / "cluster", workers=0) as cluster, served(cluster.coordinator.address) as link:
        cookie = asked(link, f"/?{urlsplit(link).query}")[1]["Set-Cookie"].partition(";")[0]

        def told() -> dict[str, Any]:
            found: dict[str, Any] = json.loads(asked(link, "/events", cookie)[2].removeprefix(b"data: "))
            return found

        assert "nodes" in told()
        cluster.coordinator.kill()
        give_up_at = time.monotonic() + GIVE_UP_S
        while "error" not in told():
            assert time.monotonic() < give_up_at
        cluster.coordinator.restart()
        while "nodes" not in told():
            assert time.monotonic() < give_up_at
