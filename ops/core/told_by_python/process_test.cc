#include "ops/core/told_by_python/process.h"

#include "ops/testing/testing.h"

namespace tfquiver {
namespace {

TEST(Process, StopReachesWhoIsThereAndWhoComesLater) {
  Process& process = Process::Get();
  int stopped = 0;
  {
    Process::OnStop before([&stopped] { ++stopped; });
    process.StopAll();
    EXPECT_EQ(stopped, 1);
    Process::OnStop after([&stopped] { ++stopped; });
    EXPECT_EQ(stopped, 2);
  }
  process.ResumeAll();
  Process::OnStop later([&stopped] { ++stopped; });
  EXPECT_EQ(stopped, 2);
}

TEST(Process, EndpointsFallBackToTheDefault) {
  Process& process = Process::Get();
  EXPECT_EQ(process.SocketPath("test-a"), "");
  process.SetEndpoint("test-a", "/a");
  EXPECT_EQ(process.SocketPath("test-a"), "/a");
  EXPECT_EQ(process.SocketPath("test-b"), "");
  process.SetEndpoint("", "/default");
  EXPECT_EQ(process.SocketPath("test-b"), "/default");
  process.SetEndpoint("", "");
}

TEST(UniqueId, Differs) { EXPECT_NE(UniqueId(), UniqueId()); }

}  // namespace
}  // namespace tfquiver
