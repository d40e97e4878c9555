#include "ops/core/reader_and_its_conversation_with_the_node/session_protocol.h"

#include <string>

#include "ops/testing/testing.h"

namespace tfquiver {
namespace {

using std::chrono::seconds;

constexpr Clock::time_point kNow{seconds(1000)};
using Frames = std::vector<std::string>;

class SessionProtocolTest : public ::testing::Test {
 protected:
  SessionProtocolTest() {
    options_.session_key = "key";
    options_.digest_id = std::string(kIdBytes, 'd');
    options_.job = "job";
    options_.reader_id = "reader";
    options_.credit_bytes = 1000;
  }

  OpenFields Fields(const std::string& session_id, uint64_t credit_bytes) const {
    OpenFields open;
    open.session_id = session_id;
    open.session_key = options_.session_key;
    open.digest_id = options_.digest_id;
    open.job = options_.job;
    open.reader_id = options_.reader_id;
    open.credit_bytes = credit_bytes;
    open.wish = options_.wish;
    return open;
  }

  void Opens(const std::vector<uint32_t>& wanted = {}) {
    Opened opened;
    opened.session_id = "made by the node";
    opened.shards = 100;
    opened.records = 1000;
    protocol_.OnOpened(opened, wanted);
  }

  static ShardFrame Shard(uint32_t shard) {
    ShardFrame frame;
    frame.shard = shard;
    frame.length_bytes = 100;
    frame.records = 2;
    return frame;
  }

  Status Comes(uint32_t shard) {
    ShardFrame frame = Shard(shard);
    const Status status = protocol_.OnShard(&frame);
    picks_ = frame.picks;
    return status;
  }

  // `bytes` of picks of which there are `all` in all.
  Status Picks(uint32_t shard, uint64_t all, uint64_t at, const std::string& bytes) {
    PicksFrame part;
    part.shard = shard;
    part.all_bytes = all;
    part.at = at;
    part.bytes = bytes;
    return protocol_.OnPicks(part);
  }

  Frames Sent() {
    Frames frames(protocol_.outgoing().begin(), protocol_.outgoing().end());
    protocol_.outgoing().clear();
    return frames;
  }

  SessionOptions options_;
  SessionProtocol protocol_{&options_};
  std::string picks_;  // of the shard that came last
};

TEST_F(SessionProtocolTest, PicksAreOfTheShardThatComesNext) {
  Opens();
  EXPECT_TRUE(Picks(5, 2, 0, "\1").ok());
  EXPECT_TRUE(Picks(5, 2, 1, "\2").ok());
  EXPECT_TRUE(Comes(5).ok());
  EXPECT_EQ(picks_, "\1\2");
  EXPECT_TRUE(Comes(6).ok());
  EXPECT_EQ(picks_, "");
  // Those of a connection that is gone are of nothing.
  EXPECT_TRUE(Picks(7, 1, 0, "\1").ok());
  protocol_.Disconnected();
  EXPECT_TRUE(Comes(8).ok());
  EXPECT_EQ(picks_, "");
}

TEST_F(SessionProtocolTest, PicksThatAreNotTheNextOnesBreakTheProtocol) {
  Opens();
  EXPECT_FALSE(Picks(5, 2, 1, "\1").ok());
  EXPECT_FALSE(Picks(5, 2, 0, "").ok());
  EXPECT_FALSE(Picks(5, 2, 0, "\1\1\1").ok());
  EXPECT_TRUE(Picks(5, 3, 0, "\1").ok());
  EXPECT_FALSE(Picks(6, 3, 1, "\1").ok());
  EXPECT_FALSE(Picks(5, 4, 1, "\1").ok());
  EXPECT_FALSE(Picks(5, 3, 0, "\1").ok());
  EXPECT_FALSE(Picks(5, 3, 1, "\1\1\1").ok());
  EXPECT_FALSE(Comes(5).ok());  // some are missing
  EXPECT_TRUE(Picks(5, 1, 0, "\1").ok());
  EXPECT_FALSE(Comes(6).ok());
  EXPECT_TRUE(Picks(5, 65, 0, std::string(65, '\1')).ok());
  EXPECT_FALSE(Comes(5).ok());  // more planes than any
}

TEST_F(SessionProtocolTest, OpensWithAllItsCreditAndHoldsNothing) {
  const SessionProtocol::Opening opening = protocol_.Open({7}, 0);
  EXPECT_EQ(opening.frames, Frames{EncodeOpen(Fields("", 1000))});
  EXPECT_FALSE(opening.has_state);
  EXPECT_FALSE(protocol_.opened());
  Opens();
  EXPECT_TRUE(protocol_.opened());
  EXPECT_TRUE(Sent().empty());
}

TEST_F(SessionProtocolTest, TheCheckpointGoesWithTheFirstOpenOnly) {
  options_.done_zlib = "zlib";
  OpenFields with_state = Fields("", 1000);
  with_state.has_state = true;
  // A node that went away before OPENED has not taken it.
  for (int attempt = 0; attempt < 2; ++attempt) {
    const SessionProtocol::Opening opening = protocol_.Open({}, 0);
    EXPECT_EQ(opening.frames, Frames{EncodeOpen(with_state)});
    EXPECT_TRUE(opening.has_state);
    protocol_.Disconnected();
  }
  Opens();
  protocol_.Disconnected();
  EXPECT_FALSE(protocol_.Open({}, 0).has_state);
}

TEST_F(SessionProtocolTest, SaysAcksAndCredit) {
  Opens();
  protocol_.Tell({3, 4}, 500, false, kNow);
  EXPECT_EQ(Sent(), (Frames{EncodeAcks({3, 4})[0], EncodeCredit(500)}));
  protocol_.Tell({}, 0, false, kNow);
  EXPECT_TRUE(Sent().empty());
}

TEST_F(SessionProtocolTest, DrainsOnceForWhatCameAndNotWhileAShardIsAwaited) {
  Opens();
  protocol_.Tell({}, 0, true, kNow);
  EXPECT_EQ(Sent(), Frames{EncodeDraining(0)});
  protocol_.Tell({}, 0, true, kNow);
  EXPECT_TRUE(Sent().empty());
  EXPECT_TRUE(Comes(5).ok());
  protocol_.Bad(5, 100);
  EXPECT_EQ(Sent(), Frames{EncodeBad(5)});
  protocol_.Tell({}, 0, true, kNow);
  EXPECT_TRUE(Sent().empty());
  EXPECT_TRUE(Comes(5).ok());
  protocol_.Loaded(5);
  protocol_.Tell({}, 0, true, kNow);
  EXPECT_EQ(Sent(), Frames{EncodeDraining(2)});
}

TEST_F(SessionProtocolTest, DrainsWithoutAShardThatIsAwaitedAndIsAnothersThen) {
  Opens();
  EXPECT_TRUE(Comes(5).ok());
  protocol_.Bad(5, 100);
  Sent();
  EXPECT_EQ(protocol_.Dropped(4), 0u);
  EXPECT_EQ(protocol_.Dropped(5), 100u);  // it was paid for when it came first
  EXPECT_EQ(protocol_.Dropped(5), 0u);
  protocol_.Tell({}, 0, true, kNow);
  EXPECT_EQ(Sent(), Frames{EncodeDraining(1)});
}

TEST_F(SessionProtocolTest, RefusesAShardThatItsSessionCannotHave) {
  Opens();
  const Status status = Comes(100);
  EXPECT_EQ(status.code(), Code::kAborted);
}

TEST_F(SessionProtocolTest, ANodeThatComesBackIsToldWhatIsHeldAndWhatWasJustAcked) {
  Opens();
  Sent();
  protocol_.Tell({1}, 0, false, kNow);
  protocol_.Tell({2}, 0, false, kNow + seconds(29));
  protocol_.Tell({}, 0, false, kNow + seconds(31));
  protocol_.Disconnected();
  EXPECT_TRUE(protocol_.outgoing().empty());
  EXPECT_EQ(protocol_.shards_received(), 0u);
  // More is here than the credit: what becomes free pays for that first.
  const SessionProtocol::Opening opening = protocol_.Open({8, 9}, 1300);
  EXPECT_EQ(opening.frames,
            (Frames{EncodeHeld({8, 9, 2})[0], EncodeOpen(Fields("made by the node", 0))}));
  Opens();
  EXPECT_EQ(Sent(), EncodeAcks({2}));
  protocol_.Tell({}, 200, false, kNow + seconds(32));
  EXPECT_TRUE(Sent().empty());
  protocol_.Tell({}, 150, false, kNow + seconds(32));
  EXPECT_EQ(Sent(), Frames{EncodeCredit(50)});
}

TEST_F(SessionProtocolTest, SaysWhatItWantsWithEachConnection) {
  options_.wish.order = Order::kWanted;
  Opens({6, 5});
  EXPECT_EQ(Sent(), EncodeWants({6, 5}));
  protocol_.Disconnected();
  Opens({5});
  EXPECT_EQ(Sent(), EncodeWants({5}));
}

TEST_F(SessionProtocolTest, ReportsAsOftenAsTheNodeAsksWhereItAsks) {
  constexpr auto kNever = Clock::time_point::max();
  Opens();
  protocol_.Ask();
  EXPECT_EQ(Sent(), Frames{EncodePing()});
  EXPECT_TRUE(protocol_.report_at() == kNever);
  protocol_.OnPong(Pong{0});
  EXPECT_TRUE(protocol_.report_at() == kNever);
  protocol_.OnPong(Pong{2000});
  EXPECT_TRUE(protocol_.report_at() <= kNow);
  Report report;
  report.records = 5;
  protocol_.SayReport(report, kNow);
  EXPECT_EQ(Sent(), Frames{EncodeReport(report)});
  EXPECT_TRUE(protocol_.report_at() == kNow + seconds(2));
  // The next node may be an older one, or in more of a hurry than is good.
  protocol_.Disconnected();
  EXPECT_TRUE(protocol_.report_at() == kNever);
  protocol_.OnPong(Pong{1});
  protocol_.SayReport(report, kNow);
  EXPECT_TRUE(protocol_.report_at() == kNow + std::chrono::milliseconds(100));
}

TEST_F(SessionProtocolTest, AfterTheEndItSaysGoodByeOnly) {
  Opens();
  protocol_.Tell({1}, 10, false, kNow);
  protocol_.OnEnd();
  EXPECT_TRUE(protocol_.ended());
  protocol_.Bad(2, 100);
  EXPECT_TRUE(Sent().empty());
  protocol_.SayClose(true);
  EXPECT_EQ(Sent(), Frames{EncodeClose(true)});
}

}  // namespace
}  // namespace tfquiver
