#include "ops/core/node_messages_socket_tickets/frame.h"

#include <cstring>

#include "ops/core/shuffle_pool_and_order/random.h"
#include "ops/testing/testing.h"

namespace tfquiver {
namespace {

std::string Bytes(std::initializer_list<int> values) {
  std::string bytes;
  for (int value : values) bytes.push_back(static_cast<char>(value));
  return bytes;
}

std::string Frame(int type, const std::string& payload) {
  std::string frame = Bytes({0x54, 0x51, 1, type});
  const auto size = static_cast<uint32_t>(payload.size());
  frame.append(reinterpret_cast<const char*>(&size), sizeof(size));
  return frame + payload;
}

std::vector<std::string> NodeFrames() {
  return {
      Frame(2, Bytes({2, 0, 'n', '1'})),
      Frame(4, Bytes({2, 0, 's', '1'}) + std::string(24, '\1')),
      Frame(6, Bytes({7, 0, 0, 0, 1}) + std::string(16, '\2') + std::string(8, '\3') +
                   std::string(24, '\4')),
      Frame(10, ""),
      Frame(13, Bytes({0, 1, 0, 's'})),
      Frame(14, Bytes({14, 0, 1, 2, 0, 'n', 'o'})),
      Frame(17, Bytes({2, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0})),
      Frame(21, Bytes({1, 2, 0, 0})),
      Frame(28, Bytes({7, 0, 0, 0}) + Bytes({3, 0, 0, 0, 0, 0, 0, 0}) +
                    Bytes({1, 0, 0, 0, 0, 0, 0, 0}) + Bytes({2, 0, 0, 0, 5, 6})),
  };
}

TEST(Frame, EncodesAsTheProtocolSays) {
  EXPECT_EQ(EncodeHello(Role::kTickets, 0x01020304, "ab"),
            Frame(1, Bytes({1, 4, 3, 2, 1, 2, 0, 'a', 'b'})));
  EXPECT_EQ(EncodeCredit(258), Frame(5, Bytes({2, 1, 0, 0, 0, 0, 0, 0})));
  EXPECT_EQ(EncodeBad(3), Frame(8, Bytes({3, 0, 0, 0})));
  EXPECT_EQ(EncodeDraining(5), Frame(9, Bytes({5, 0, 0, 0, 0, 0, 0, 0})));
  EXPECT_EQ(EncodeClose(true), Frame(11, Bytes({1})));
  EXPECT_EQ(EncodeLeaving(), Frame(20, ""));
  EXPECT_EQ(EncodePing(), Frame(15, ""));
  Report report;
  report.records = 1;
  report.bytes = 2;
  report.waited_us = 3;
  report.elapsed_us = 4;
  EXPECT_EQ(EncodeReport(report),
            Frame(22, Bytes({1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0}) +
                          Bytes({3, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0})));
  EXPECT_EQ(EncodeError(Code::kAborted, true, "x"), Frame(14, Bytes({10, 0, 1, 1, 0, 'x'})));
  EXPECT_EQ(EncodeAcks({1, 2}),
            std::vector<std::string>{Frame(7, Bytes({2, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0}))});
  OpenFields open;
  open.session_id = "s";
  open.digest_id = std::string(kIdBytes, 'd');
  open.credit_bytes = 1;
  open.wish.seed = 2;
  open.wish.order = Order::kWanted;
  open.wish.homogeneous = true;
  open.wish.order_seed = 3;
  open.wish.block_bytes = 4;
  open.wish.batch_records = 5;
  open.has_state = true;
  EXPECT_EQ(EncodeOpen(open),
            Frame(3, Bytes({1, 0, 's', 0, 0}) + std::string(kIdBytes, 'd') + Bytes({0, 0, 0, 0}) +
                         Bytes({1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 2, 1}) +
                         Bytes({3, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 1})));
  TicketFields ticket;
  ticket.session_key = "k";
  ticket.provider_id = "p";
  ticket.repetition = 3;
  ticket.asker = Asker::kRestoredProvider;
  ticket.digest_id = std::string(kIdBytes, 'd');
  EXPECT_EQ(EncodeTicket(ticket),
            Frame(12, Bytes({1, 0, 'k', 1, 0, 'p', 3, 0, 0, 0, 0, 0, 0, 0, 1}) +
                          std::string(kIdBytes, 'd') + Bytes({0, 0}) + std::string(30, '\0')));
  EXPECT_EQ(EncodeWants({7}), (std::vector<std::string>{Frame(19, Bytes({1, 0, 0, 0, 7, 0, 0, 0})),
                                                        Frame(19, Bytes({0, 0, 0, 0}))}));
}

TEST(Frame, ManyIndexesTakeSeveralFrames) {
  EXPECT_TRUE(EncodeHeld({}).empty());
  const auto frames = EncodeHeld(std::vector<uint32_t>(kMaxIndexes * 2 + 1, 9));
  ASSERT_EQ(frames.size(), 3u);
  for (const std::string& frame : frames) EXPECT_LE(frame.size(), kMaxFrameBytes);
  EXPECT_EQ(frames[2].size(), kFrameHeaderBytes + 8);
}

TEST(Frame, DecodesWhatNodesSend) {
  NodeFrame frame;
  const auto frames = NodeFrames();
  ASSERT_TRUE(Decode(frames[0], &frame).ok());
  EXPECT_EQ(std::get<Welcome>(frame).node_id, "n1");
  ASSERT_TRUE(Decode(frames[1], &frame).ok());
  EXPECT_EQ(std::get<Opened>(frame).session_id, "s1");
  EXPECT_EQ(std::get<Opened>(frame).records, 0x0101010101010101u);
  ASSERT_TRUE(Decode(frames[2], &frame).ok());
  EXPECT_EQ(std::get<ShardFrame>(frame).shard, 7u);
  EXPECT_EQ(std::get<ShardFrame>(frame).kind, ShardKind::kMemory);
  EXPECT_EQ(std::get<ShardFrame>(frame).crc32c, 0x03030303u);
  EXPECT_EQ(std::get<ShardFrame>(frame).place.unit, 0x04040404u);
  EXPECT_EQ(std::get<ShardFrame>(frame).place.position, 0x0404040404040404u);
  ASSERT_TRUE(Decode(frames[3], &frame).ok());
  EXPECT_TRUE(std::holds_alternative<End>(frame));
  ASSERT_TRUE(Decode(frames[4], &frame).ok());
  EXPECT_EQ(std::get<TicketReply>(frame).session_id, "s");
  ASSERT_TRUE(Decode(frames[5], &frame).ok());
  EXPECT_EQ(std::get<ErrorFrame>(frame).code, Code::kUnavailable);
  EXPECT_TRUE(std::get<ErrorFrame>(frame).fatal);
  ASSERT_TRUE(Decode(frames[6], &frame).ok());
  EXPECT_EQ(std::get<Dropped>(frame).shards, (std::vector<uint32_t>{1, 2}));
  ASSERT_TRUE(Decode(frames[7], &frame).ok());
  EXPECT_EQ(std::get<Pong>(frame).report_ms, 0x201u);
}

TEST(Frame, RefusesEveryCutAndEveryExcess) {
  NodeFrame frame;
  for (const std::string& whole : NodeFrames()) {
    for (size_t size = 0; size < whole.size(); ++size) {
      EXPECT_EQ(Decode(whole.substr(0, size), &frame).code(), Code::kAborted);
      // A cut whose header owns up to it.
      if (size < kFrameHeaderBytes) continue;
      const std::string payload = whole.substr(kFrameHeaderBytes, size - kFrameHeaderBytes);
      EXPECT_EQ(Decode(Frame(whole[3], payload), &frame).code(), Code::kAborted);
    }
    EXPECT_EQ(Decode(Frame(whole[3], whole.substr(kFrameHeaderBytes) + "x"), &frame).code(),
              Code::kAborted);
  }
}

TEST(Frame, RefusesForeignHeadersAndTypes) {
  NodeFrame frame;
  std::string end = Frame(10, "");
  end[0] = 'X';
  EXPECT_FALSE(Decode(end, &frame).ok());
  end = Frame(10, "");
  end[2] = 2;
  EXPECT_NE(Decode(end, &frame).message().find("version 2"), std::string::npos);
  for (int type : {0, 1, 3, 5, 7, 8, 9, 11, 12, 15, 16, 18, 19, 20, 22, 255}) {
    EXPECT_FALSE(Decode(Frame(type, ""), &frame).ok()) << type;
  }
}

TEST(Frame, SurvivesGarbage) {
  Random random(7);
  NodeFrame frame;
  for (const std::string& whole : NodeFrames()) {
    for (int i = 0; i < 2000; ++i) {
      std::string bytes = whole;
      for (int flips = 0; flips < 3; ++flips) {
        bytes[random.Below(bytes.size())] = static_cast<char>(random.Next());
      }
      Decode(bytes, &frame).ok();
    }
  }
}

}  // namespace
}  // namespace tfquiver
