#include "ops/core/node_messages_socket_tickets/ticket_client.h"

#include "ops/testing/test_listener.h"
#include "ops/testing/testing.h"

namespace tfquiver {
namespace {

TEST(TicketClient, NobodyThere) {
  TicketReply reply;
  const auto limit = std::chrono::milliseconds(100);
  EXPECT_EQ(AskForTicket("", "", TicketFields{}, limit, &reply).code(), Code::kUnavailable);
  EXPECT_EQ(AskForTicket("/nonexistent/socket", "", TicketFields{}, limit, &reply).code(),
            Code::kUnavailable);
}

TEST(TicketClient, AnswersInTimeWhenTheNodeDoesNot) {
  TestListener node;
  TicketReply reply;
  TicketFields ticket;
  ticket.digest_id = std::string(kIdBytes, 'd');
  const Status status =
      AskForTicket(node.path(), "", ticket, std::chrono::milliseconds(50), &reply);
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_NE(status.message().find("no ticket in time"), std::string::npos);
}

TEST(SlowNodes, AreNotAskedForAWhileAndThenProbedByOne) {
  using std::chrono::milliseconds;
  SlowNodes slow;
  const Clock::time_point start{};
  const milliseconds limit(1000);
  EXPECT_EQ(slow.Limit("a", start, limit), limit);
  slow.Called("a", start + limit, true);
  EXPECT_EQ(slow.Limit("a", start + limit + SlowNodes::kPause / 2, limit), milliseconds(0));
  EXPECT_EQ(slow.Limit("b", start + limit, limit), limit);
  const auto later = start + limit + SlowNodes::kPause;
  EXPECT_EQ(slow.Limit("a", later, limit), SlowNodes::kProbe);
  EXPECT_EQ(slow.Limit("a", later, limit), milliseconds(0));
  slow.Called("a", later + SlowNodes::kProbe, true);
  EXPECT_EQ(slow.Limit("a", later + SlowNodes::kProbe, limit), milliseconds(0));
  const auto at_last = later + SlowNodes::kProbe + SlowNodes::kPause;
  EXPECT_EQ(slow.Limit("a", at_last, limit), SlowNodes::kProbe);
  slow.Called("a", at_last, false);
  EXPECT_EQ(slow.Limit("a", at_last, limit), limit);
}

}  // namespace
}  // namespace tfquiver
