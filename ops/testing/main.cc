// Runs the tests of this program: all, or those whose names contain one of the arguments. Exit code
// 1 when one fails.

#include <atomic>
#include <cmath>
#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ops/testing/testing.h"

namespace testing {
namespace internal {
namespace {

struct Registered {
  std::string name;
  std::function<void()> prepare;
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
    if (registered.prepare) registered.prepare();
    const std::unique_ptr<Test> test(registered.make());
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

bool Register(std::string name, std::function<void()> prepare, MakeTest make) {
  Tests().push_back({std::move(name), std::move(prepare), make});
  return true;
}

bool Register(const char* name, MakeTest make) { return Register(name, nullptr, make); }

Wrong Differ(const char* a_text, const char* sign, const char* b_text, const std::string& a,
             const std::string& b) {
  return new std::string(std::string(a_text) + " " + sign + " " + b_text + ", but they are " + a +
                         " and " + b);
}

Wrong IsTrue(const char* text, bool value, bool wanted) {
  if (value == wanted) return nullptr;
  return new std::string(std::string(text) + " is " + (value ? "true" : "false"));
}

Wrong Near(const char* a_text, const char* b_text, double a, double b, double most) {
  if (std::abs(a - b) <= most) return nullptr;
  return new std::string(std::string(a_text) + " and " + b_text + " differ by more than " +
                         Text(most) + ": " + Text(a) + " and " + Text(b));
}

Failure::Failure(const char* file, int line, Wrong wrong) : Failure(file, line, wrong->c_str()) {
  delete wrong;
}

Failure::Failure(const char* file, int line, const char* what) {
  text_ << file << ":" << line << ": " << what;
}

Failure::~Failure() {
  ++failures;
  text_ << "\n";
  std::fputs(text_.str().c_str(), stdout);
  std::fflush(stdout);
}

std::ostream& Failure::Text() {
  if (!said_) text_ << "\n  ";
  said_ = true;
  return text_;
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
