#include "ops/core/element_messages_handshake_sockets/messages.h"

#include "ops/core/element_messages_handshake_sockets/handshake.h"
#include "ops/core/element_messages_handshake_sockets/server_info.h"
#include "ops/testing/testing.h"

namespace tfquiver {
namespace {

TEST(ElementMessagesTest, ALeaveIsNoAskAndNothingElseIsALeave) {
  Ask ask;
  EXPECT_TRUE(IsLeave(EncodeLeave()));
  EXPECT_FALSE(DecodeAsk(EncodeLeave(), &ask));  // so a worker that does not know it hangs up
  ask.number = 1;
  EXPECT_FALSE(IsLeave(EncodeAsk(ask)));
  EXPECT_FALSE(IsLeave(""));
  EXPECT_FALSE(IsLeave(EncodeLeave() + EncodeLeave()));
}

Element Example() {
  Element element;
  element.number = 7;
  element.code = Code::kDataLoss;
  element.message = "torn";
  element.index = 3;
  element.place = Element::kShared;
  element.payload_bytes = 200;
  element.memory = 5;
  element.memory_bytes = 65536;
  element.components = {{Component::kRaw, 1, {2, 3}, 0, 24}, {Component::kStrings, 7, {}, 64, 136}};
  return element;
}

TEST(MessagesTest, AnElementArrivesAsItWas) {
  Element got;
  ASSERT_TRUE(DecodeElement(EncodeElement(Example()), &got));
  EXPECT_EQ(got.number, 7u);
  EXPECT_TRUE(got.code == Code::kDataLoss);
  EXPECT_EQ(got.message, "torn");
  EXPECT_EQ(got.index, 3);
  EXPECT_TRUE(got.place == Element::kShared);
  EXPECT_EQ(got.memory_bytes, 65536u);
  ASSERT_EQ(got.components.size(), 2u);
  EXPECT_EQ(got.components[0].dims, std::vector<int64_t>({2, 3}));
  EXPECT_EQ(got.components[1].offset, 64u);
  EXPECT_EQ(got.components[1].size, 136u);
}

TEST(MessagesTest, AQuestionArrivesAsItWas) {
  Ask ask;
  ask.number = 9;
  ask.received = 8;
  ask.released = {1, 4};
  ask.request = "\x08\x05";
  const std::string bytes = EncodeAsk(ask);
  Ask got;
  ASSERT_TRUE(DecodeAsk(bytes, &got));
  EXPECT_EQ(got.number, 9u);
  EXPECT_EQ(got.received, 8u);
  EXPECT_EQ(got.released, std::vector<uint32_t>({1, 4}));
  EXPECT_EQ(std::string(got.request), "\x08\x05");
}

// Under the sanitizers: whatever is cut off or changed is refused, or read within its bounds.
TEST(MessagesTest, WhatIsCutOffOrChangedIsNotReadBeyondItsEnd) {
  const std::string whole = EncodeElement(Example());
  Element element;
  Ask ask;
  Greeting greeting;
  Introduction introduction;
  ServerInfo info;
  Question question;
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(DecodeElement(whole.substr(0, size), &element));
  }
  for (size_t at = 0; at < whole.size(); ++at) {
    for (const char byte : {'\x00', '\x7f', '\xff'}) {
      std::string changed = whole;
      changed[at] = byte;
      if (DecodeElement(changed, &element)) {
        for (const Component& component : element.components) {
          EXPECT_LE(component.offset + component.size, element.payload_bytes);
        }
      }
      DecodeAsk(changed, &ask);
      DecodeGreeting(changed, &greeting);
      DecodeIntroduction(changed, &introduction);
      DecodeServerInfo(changed, &info);
      ReadQuestion(changed, &question);
    }
  }
}

TEST(MessagesTest, ComponentsLieWithinThePayload) {
  Element beyond = Example();
  beyond.components[1].size = 137;
  Element got;
  EXPECT_FALSE(DecodeElement(EncodeElement(beyond), &got));
  beyond.components[1].size = ~uint64_t{0};
  EXPECT_FALSE(DecodeElement(EncodeElement(beyond), &got));
  Element negative = Example();
  negative.components[0].dims[0] = -1;
  EXPECT_FALSE(DecodeElement(EncodeElement(negative), &got));
}

TEST(MessagesTest, ARequestOfTensorFlowIsUnderstood) {
  Question question;
  // task_id 300, allow_skip true.
  ASSERT_TRUE(ReadQuestion(std::string_view("\x08\xac\x02\x28\x01", 5), &question));
  EXPECT_TRUE(question.allow_skip);
  EXPECT_FALSE(question.in_turn);
  // The last one counts; a negative number takes ten bytes.
  ASSERT_TRUE(ReadQuestion(
      std::string_view("\x28\x01\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x28\x00", 15),
      &question));
  EXPECT_FALSE(question.allow_skip);
  ASSERT_TRUE(ReadQuestion(std::string_view("\x10\x00", 2), &question));  // consumer_index 0
  EXPECT_TRUE(question.in_turn);
  ASSERT_TRUE(ReadQuestion("\x32\x01t", &question));  // trainer_id
  EXPECT_TRUE(question.in_turn);
  EXPECT_FALSE(ReadQuestion("\x32\x7ft", &question));
}

TEST(HandshakeTest, BothProveTheSameToken) {
  const std::vector<std::string> worker = {KeyOfToken("one"), KeyOfToken("two")};
  Greeting greeting{RandomBytes(kNonceBytes), {KeyId(worker[0]), KeyId(worker[1])}};
  Greeting read;
  ASSERT_TRUE(DecodeGreeting(EncodeGreeting(greeting), &read));
  Introduction introduction;
  std::string key, proof;
  const std::string id = RandomBytes(kClientIdBytes);
  const std::string which = RandomBytes(kWorkerIdBytes);
  ASSERT_TRUE(
      Introduce(read, {KeyOfToken("other"), KeyOfToken("two")}, id, which, &introduction, &key)
          .ok());
  Introduction arrived;
  ASSERT_TRUE(DecodeIntroduction(EncodeIntroduction(introduction), &arrived));
  ASSERT_TRUE(Admit(greeting, arrived, worker, which, &proof).ok());
  EXPECT_TRUE(Proven(read, introduction, key, proof));
  EXPECT_FALSE(Proven(read, introduction, key, ""));
  // The proof is about the worker that was named, too.
  arrived.worker_id[0] ^= 1;
  std::string none;
  EXPECT_TRUE(Admit(greeting, arrived, worker, arrived.worker_id, &none).code() ==
              Code::kUnauthenticated);
  EXPECT_FALSE(Proven(read, introduction, key, arrived.proof));  // nobody's own words come back
}

TEST(HandshakeTest, AnotherTokenIsRefusedByBoth) {
  const std::vector<std::string> worker = {KeyOfToken("one")};
  Greeting greeting{RandomBytes(kNonceBytes), {KeyId(worker[0])}};
  Introduction introduction;
  std::string key, proof;
  const std::string id = RandomBytes(kClientIdBytes);
  const std::string which = RandomBytes(kWorkerIdBytes);
  EXPECT_TRUE(Introduce(greeting, {KeyOfToken("other")}, id, which, &introduction, &key).code() ==
              Code::kUnauthenticated);
  EXPECT_TRUE(Introduce(greeting, {}, id, which, &introduction, &key).code() ==
              Code::kUnauthenticated);
  // One that says it all the same, with another's proof.
  Greeting lie{greeting.nonce, {KeyId(KeyOfToken("other"))}};
  ASSERT_TRUE(Introduce(lie, {KeyOfToken("other")}, id, which, &introduction, &key).ok());
  introduction.key_id = greeting.key_ids[0];
  EXPECT_TRUE(Admit(greeting, introduction, worker, which, &proof).code() ==
              Code::kUnauthenticated);
  // And what was right for another connection.
  ASSERT_TRUE(Introduce(greeting, worker, id, which, &introduction, &key).ok());
  greeting.nonce = RandomBytes(kNonceBytes);
  EXPECT_TRUE(Admit(greeting, introduction, worker, which, &proof).code() ==
              Code::kUnauthenticated);
}

TEST(HandshakeTest, AWorkerWithoutTokensTakesEverybody) {
  const Greeting greeting{RandomBytes(kNonceBytes), {}};
  Introduction introduction;
  std::string key, proof;
  ASSERT_TRUE(Introduce(greeting, {KeyOfToken("one")}, RandomBytes(kClientIdBytes), "which",
                        &introduction, &key)
                  .ok());
  EXPECT_TRUE(Admit(greeting, introduction, {}, "which", &proof).ok());
  EXPECT_TRUE(Proven(greeting, introduction, key, proof));
}

TEST(HandshakeTest, AWorkerIsTheOneOfItsAddressAndItsDispatcher) {
  EXPECT_EQ(WorkerId("a:1", "d:2").size(), kWorkerIdBytes);
  EXPECT_EQ(WorkerId("a:1", "d:2"), WorkerId("a:1", "d:2"));
  EXPECT_NE(WorkerId("a:1", "d:2"), WorkerId("a:2", "d:2"));
  EXPECT_NE(WorkerId("a:1", "d:2"), WorkerId("a:1", "d:3"));
}

TEST(ServerInfoTest, ArrivesAsItWasAndAnotherVersionsIsRefused) {
  ServerInfo info;
  const std::string id(kWorkerIdBytes, 'w');
  std::string text = EncodeServerInfo({"name", "host:1", id});
  EXPECT_EQ(text, std::string("TFQT\x02\x04name\x06\0host:1", 18) + id);
  ASSERT_TRUE(DecodeServerInfo(text, &info));
  EXPECT_EQ(info.local_name, "name");
  EXPECT_EQ(info.grpc_address, "host:1");
  EXPECT_EQ(info.worker_id, id);
  EXPECT_FALSE(DecodeServerInfo(text.substr(0, text.size() - 1), &info));
  EXPECT_FALSE(DecodeServerInfo(text + "x", &info));
  EXPECT_FALSE(DecodeServerInfo(std::string("TFQT\x01\x04name\x06\0host:1", 18), &info));
  EXPECT_FALSE(DecodeServerInfo("", &info));
}

}  // namespace
}  // namespace tfquiver
