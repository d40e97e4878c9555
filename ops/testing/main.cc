// Runs the tests of this program: all, or those whose names contain one of the arguments. Exit code
// 1 when one fails.

#include <atomic>
#include <cstdio>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "ops/testing/testing.h"

namespace testing {
namespace internal {
namespace {

struct Registered {
  std::string name;
  MakeTest make;
};

std::vector<Registered>& Tests() {
  static auto* tests =
      new std::vector<Registered>;  // as old as the first static test, and never destroyed
  return *tests;
}

std::atomic<int> failures{0};

void Run(const Registered& registered) {
  const int before = failures;
  try {
    const std::unique_ptr<Test> test = registered.make();
    test->SetUp();
    if (failures == before) test->TestBody();
    test->TearDown();
  } catch (const std::exception& error) {
    Failure(registered.name.c_str(), 0, "threw") << error.what();
  }
}

bool Wanted(const std::string& name, int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (name.find(argv[i]) != std::string::npos) return true;
  }
  return argc < 2;
}

}  // namespace

bool Register(std::string name, MakeTest make) {
  Tests().push_back({std::move(name), std::move(make)});
  return true;
}

Failure::~Failure() {
  ++failures;
  text_ << "\n";
  std::fputs(text_.str().c_str(), stdout);
  std::fflush(stdout);
}

int RunAll(int argc, char** argv) {
  int run = 0;
  int failed = 0;
  for (const Registered& test : Tests()) {
    if (!Wanted(test.name, argc, argv)) continue;
    const int before = failures;
    Run(test);
    ++run;
    if (failures == before) continue;
    ++failed;
    std::printf("FAILED %s\n", test.name.c_str());
  }
  std::printf("%d tests, %d failed\n", run, failed);
  return failed > 0 || run == 0 ? 1 : 0;
}

}  // namespace internal
}  // namespace testing

int main(int argc, char** argv) { return testing::internal::RunAll(argc, argv); }
