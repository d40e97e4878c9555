"""The C++ core's own tests, under AddressSanitizer and UBSan; and the harness that they are written in."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.ops import core_tests

pytestmark = pytest.mark.long  # all of the core is compiled


@pytest.mark.timeout(600)
def test_core_with_address_sanitizer() -> None:
    core_tests.run("address")


PROBE = """
#include "ops/testing/testing.h"
int reached = 0;
TEST(Probe, Passes) { EXPECT_EQ(std::string("a").size(), 1) << "never said"; }
TEST(Probe, Fails) {
  EXPECT_EQ(1 + 1, 3) << "said";
  ++reached;
  ASSERT_LT(std::vector<int>({7, 8}), std::vector<int>({7}));
  reached = 100;
}
TEST(Probe, GoesOnAfterIt) { EXPECT_EQ(reached, 1); }
class Fixture : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override { ASSERT_NE(GetParam(), 5); }
};
TEST_P(Fixture, Body) { EXPECT_NEAR(GetParam(), 6, 0.5); }
INSTANTIATE_TEST_SUITE_P(All, Fixture, ::testing::Values(5, 6));
"""


def test_a_check_that_does_not_hold_is_said_and_fails_the_program(tmp_path: Path) -> None:
    (tmp_path / "probe.cc").write_text(PROBE)
    main = core_tests.ROOT / "ops" / "testing" / "main.cc"
    command = ["g++", "-std=c++17", f"-I{core_tests.ROOT}", str(tmp_path / "probe.cc"), str(main), "-pthread"]
    subprocess.run([*command, "-o", str(tmp_path / "probe")], check=True)
    done = subprocess.run([str(tmp_path / "probe")], capture_output=True, text=True, timeout=30, check=False)
    said = done.stdout.replace(f"{tmp_path}/", "").splitlines()
    assert (done.returncode, said) == (
        1,
        [
            "probe.cc:6: 1 + 1 == 3, but they are 2 and 3",
            "  said",
            "probe.cc:8: std::vector<int>({7, 8}) < std::vector<int>({7}), but they are {7, 8} and {7}",
            "FAILED Probe.Fails",
            "probe.cc:14: GetParam() != 5, but they are 5 and 5",
            "FAILED Fixture.Body/0",
            "5 tests, 2 failed",
        ],
    )
    passing = subprocess.run(
        [str(tmp_path / "probe"), "Passes"], capture_output=True, text=True, timeout=30, check=False
    )
    assert (passing.returncode, passing.stdout) == (0, "1 tests, 0 failed\n")
