#include "ops/core/progress_and_checkpoints/whereabouts.h"

#include "ops/testing/testing.h"

namespace tfquiver {
namespace {

Checkpoint OfEpoch(int64_t epoch) {
  Checkpoint checkpoint;
  checkpoint.epoch = epoch;
  checkpoint.marks.shards = 8;
  checkpoint.marks.done = {0};
  return checkpoint;
}

TEST(Whereabouts, OfOneThatHasNotBegun) {
  Whereabouts whereabouts(OfEpoch(3), {OfEpoch(4), OfEpoch(5)}, false);
  const std::vector<Checkpoint> all = whereabouts.At(whereabouts.trail()->End());
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].epoch, 3);
  EXPECT_EQ(all[2].epoch, 5);
}

TEST(Whereabouts, WhoReadsIsAskedUntilItIsLeft) {
  Whereabouts whereabouts(OfEpoch(0), {}, true);
  int asked = 0;
  whereabouts.Follow([&asked](const Trail::Mark*, std::vector<Step>*) {
    ++asked;
    return OfEpoch(7);
  });
  EXPECT_EQ(whereabouts.At(whereabouts.trail()->End())[0].epoch, 7);
  whereabouts.Leave();
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(whereabouts.At(whereabouts.trail()->End())[0].epoch, 7);
  EXPECT_EQ(asked, 2);
}

TEST(Whereabouts, GoesOnInTheOneThatFollows) {
  auto first =
      std::make_shared<Whereabouts>(OfEpoch(0), std::vector<Checkpoint>{OfEpoch(9)}, false);
  const Trail::Mark mark = first->trail()->End();
  first->trail()->Append({2, 7, 0});
  auto second = std::make_shared<Whereabouts>(OfEpoch(1), std::vector<Checkpoint>{}, false);
  first->FollowedBy(second);
  second->trail()->Append({5, 0, 0});
  const std::vector<Checkpoint> all = first->At(mark);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].script.draws, std::vector<uint32_t>{2});
  EXPECT_EQ(all[0].marks.partly.at(2), 7u);
  EXPECT_EQ(all[1].epoch, 1);
  EXPECT_EQ(all[1].script.draws, std::vector<uint32_t>{5});
  // Whom nobody asks after any more is forgotten.
  first = nullptr;
  EXPECT_EQ(second->trail()->kept(), 0u);
}

TEST(Whereabouts, WhereTheMarksSufficeThereIsNoScript) {
  auto whereabouts = std::make_shared<Whereabouts>(OfEpoch(0), std::vector<Checkpoint>{}, true);
  const Trail::Mark mark = whereabouts->trail()->End();
  whereabouts->trail()->Append({2, 7, 0});
  const std::vector<Checkpoint> all = whereabouts->At(mark);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_TRUE(all[0].script.draws.empty());
  EXPECT_EQ(all[0].marks.partly.at(2), 7u);
}

TEST(Lineage, GivesEachWhatIsSettledAndTheRestToTheNext) {
  Lineage lineage;
  EXPECT_TRUE(lineage.Take("a").empty());
  lineage.Expect("a", {OfEpoch(4), OfEpoch(5)});
  EXPECT_TRUE(lineage.Take("b").empty());
  std::vector<Checkpoint> settled = lineage.Take("a");
  ASSERT_EQ(settled.size(), 2u);
  EXPECT_EQ(settled[0].epoch, 4);
  settled = lineage.Take("a");
  ASSERT_EQ(settled.size(), 1u);
  EXPECT_EQ(settled[0].epoch, 5);
  EXPECT_TRUE(lineage.Take("a").empty());
}

TEST(Lineage, LinksTheOneThatEndedToTheOneThatBegins) {
  Lineage lineage;
  auto first = std::make_shared<Whereabouts>(OfEpoch(0), std::vector<Checkpoint>{}, false);
  auto second = std::make_shared<Whereabouts>(OfEpoch(1), std::vector<Checkpoint>{}, false);
  const Trail::Mark mark = first->trail()->End();
  lineage.Begins("a", first);
  lineage.Begins("a", second);
  EXPECT_EQ(first->At(mark).size(), 1u);  // it had not ended
  lineage.Ended("a", first);
  lineage.Begins("b", second);
  EXPECT_EQ(first->At(mark).size(), 1u);  // of another kin
  lineage.Begins("a", second);
  EXPECT_EQ(first->At(mark).size(), 2u);
}

}  // namespace
}  // namespace tfquiver
