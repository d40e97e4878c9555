#include "ops/core/element_messages_handshake_sockets/own_port.h"

#include <string>

#include "ops/core/element_messages_handshake_sockets/handshake.h"
#include "ops/testing/testing.h"

namespace tfquiver {
namespace {

std::string Id(int worker) { return WorkerId("host:" + std::to_string(worker), "dispatcher:5000"); }

// Of a thousand workers.
Ports Taken(Ports given_away) {
  Ports taken{1 << 16, 0};
  for (int worker = 0; worker < 1000; ++worker) {
    const int port = OwnPort(Id(worker), given_away);
    taken = {std::min(taken.first, port), std::max(taken.last, port)};
  }
  return taken;
}

TEST(OwnPortTest, IsTheSameOneEveryTime) {
  EXPECT_EQ(OwnPort(Id(1), GivenAway()), OwnPort(Id(1), GivenAway()));
}

TEST(OwnPortTest, IsNoneThatIsGivenAwayToWhoConnects) {
  const Ports usual = Taken({32768, 60999});
  EXPECT_TRUE(usual.first >= 61000);
  EXPECT_TRUE(usual.last <= 65535);
  const Ports below = Taken({52000, 65535});
  EXPECT_TRUE(below.first >= 49152);
  EXPECT_TRUE(below.last < 52000);
  const Ports apart = Taken({1024, 40000});
  EXPECT_TRUE(apart.first >= 49152);
  EXPECT_TRUE(apart.last <= 65535);
}

TEST(OwnPortTest, IsAnyOfTheRangeWhereAllAreGivenAway) {
  for (const Ports all : {Ports{1024, 65535}, Ports{49152, 65500}, Ports{0, 0}, Ports{9, 1}}) {
    const Ports taken = Taken(all);
    EXPECT_TRUE(taken.first >= 49152);
    EXPECT_TRUE(taken.last <= 65535);
    EXPECT_TRUE(taken.last - taken.first > 8000);
  }
}

TEST(OwnPortTest, KnowsWhatThisMachineGivesAway) {
  const Ports given_away = GivenAway();
  EXPECT_TRUE(0 < given_away.first);
  EXPECT_TRUE(given_away.first < given_away.last);
}

}  // namespace
}  // namespace tfquiver
