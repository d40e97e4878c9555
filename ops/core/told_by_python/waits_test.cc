#include "ops/core/told_by_python/waits.h"

#include <chrono>
#include <thread>

#include "ops/testing/testing.h"

namespace tfquiver {
namespace {

using std::chrono::milliseconds;

TEST(Waits, CountsWhoAsksAndForHowLong) {
  Waits waits;
  EXPECT_EQ(waits.For("a", milliseconds(0)).iterators, 0u);
  Waits::Waiter one(&waits, "a");
  Waits::Waiter other(&waits, "a");
  Waits::Waiter elsewhere(&waits, "b");
  Waits::Waiter nameless(&waits, "");
  for (Waits::Waiter* waiter : {&one, &elsewhere, &nameless}) waiter->Begins();
  std::this_thread::sleep_for(milliseconds(20));
  other.Begins();
  EXPECT_EQ(waits.For("a", milliseconds(0)).iterators, 2u);
  EXPECT_EQ(waits.For("a", milliseconds(20)).iterators, 1u);
  EXPECT_TRUE(waits.For("a", milliseconds(20)).least >= milliseconds(20));
  EXPECT_TRUE(waits.For("a", milliseconds(0)).least < waits.For("a", milliseconds(20)).least);
  EXPECT_EQ(waits.For("", milliseconds(0)).iterators, 0u);
  one.Has();
  EXPECT_EQ(waits.For("a", milliseconds(0)).iterators, 1u);
  EXPECT_EQ(waits.For("b", milliseconds(20)).iterators, 1u);
}

TEST(Waits, AnElementForOneOfSeveralThreadsBeginsAnew) {
  Waits waits;
  Waits::Waiter waiter(&waits, "a");
  waiter.Begins();
  waiter.Begins();
  std::this_thread::sleep_for(milliseconds(20));
  waiter.Has();
  EXPECT_EQ(waits.For("a", milliseconds(0)).iterators, 1u);
  EXPECT_EQ(waits.For("a", milliseconds(20)).iterators, 0u);
  waiter.Has();
  EXPECT_EQ(waits.For("a", milliseconds(0)).iterators, 0u);
}

TEST(Waits, WhoIsGoneWaitsNoMore) {
  Waits waits;
  {
    Waits::Waiter waiter(&waits, "a");
    waiter.Begins();
  }
  EXPECT_EQ(waits.For("a", milliseconds(0)).iterators, 0u);
}

}  // namespace
}  // namespace tfquiver
