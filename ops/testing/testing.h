#ifndef TFQUIVER_OPS_TESTING_TESTING_H_
#define TFQUIVER_OPS_TESTING_TESTING_H_

// The part of GoogleTest that the core's tests use, under GoogleTest's names, so that a compiler is
// all they need. Failures may be reported from any thread. ASSERT_* leaves the function that it
// stands in, which returns void.

#include <functional>
#include <ostream>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace testing {

class Test {
 public:
  virtual ~Test() = default;
  virtual void SetUp() {}
  virtual void TearDown() {}
  virtual void TestBody() = 0;
};

template <typename T>
class TestWithParam : public Test {
 public:
  using ParamType = T;
  static const T& GetParam() { return *param_; }
  static void SetParam(const T& param) { param_ = &param; }

 private:
  inline static const T* param_ = nullptr;
};

template <typename... T>
auto Values(T... values) {
  return std::vector<std::common_type_t<T...>>{std::move(values)...};
}

namespace internal {

using MakeTest = Test* (*)();  // a new one

// Adds a test to the program, before which `prepare` is called; true, so that a static variable can
// hold it.
bool Register(const char* name, MakeTest make);
bool Register(std::string name, std::function<void()> prepare, MakeTest make);

// Tests of one fixture and values for them: each test is run with each value, in whichever order
// the two are told.
template <typename Fixture>
class Suite {
 public:
  using Param = typename Fixture::ParamType;
  static bool Add(const char* name, MakeTest make) {
    Tests().push_back({name, make});
    for (size_t i = 0; i < Params().size(); ++i) Register(Tests().back(), i);
    return true;
  }
  static bool Give(std::vector<Param> params) {
    for (Param& param : params) {
      Params().push_back(std::move(param));
      for (const auto& test : Tests()) Register(test, Params().size() - 1);
    }
    return true;
  }

 private:
  using Named = std::pair<const char*, MakeTest>;
  static void Register(const Named& test, size_t index) {
    internal::Register(
        std::string(test.first) + "/" + std::to_string(index),
        [index] { Fixture::SetParam(Params()[index]); }, test.second);
  }
  // In functions: static variables of a template are made in no particular order, and these are
  // needed while others are.
  static std::vector<Named>& Tests() {
    static auto* tests = new std::vector<Named>;
    return *tests;
  }
  static std::vector<Param>& Params() {
    static auto* params = new std::vector<Param>;
    return *params;
  }
};

// Most of what a test is compiled to, and with a sanitizer several times as much, is its checks: so
// a check that holds has nothing to destroy, and what one says that does not is put together
// elsewhere.

// What does not hold; null: all does. The Failure that says it deletes it.
using Wrong = const std::string*;

// One failed check; said, with what is streamed into it, when the statement ends.
class Failure {
 public:
  Failure(const char* file, int line, Wrong wrong);
  Failure(const char* file, int line, const char* what);
  ~Failure();
  template <typename T>
  Failure& operator<<(const T& more) {
    Text() << more;
    return *this;
  }

 private:
  std::ostream& Text();

  std::ostringstream text_;
  bool said_ = false;
};

// `return Leave() = Failure(...) << more` returns void, and binds looser than `<<`.
struct Leave {
  void operator=(const Failure&) const {}
};

template <typename T, typename = void>
struct Streams : std::false_type {};
template <typename T>
struct Streams<T, std::void_t<decltype(std::declval<std::ostream&>() << std::declval<const T&>())>>
    : std::true_type {};
template <typename T, typename = void>
struct Ranges : std::false_type {};
template <typename T>
struct Ranges<T, std::void_t<decltype(std::declval<const T&>().begin())>> : std::true_type {};

template <typename T>
std::string Text(const T& value) {
  std::ostringstream text;
  if constexpr (std::is_enum_v<T>) {
    text << static_cast<long long>(value);
  } else if constexpr (Streams<T>::value) {
    text << std::boolalpha << value;
  } else if constexpr (Ranges<T>::value) {
    text << "{";
    for (const auto& one : value) text << (text.tellp() > 1 ? ", " : "") << Text(one);
    text << "}";
  } else {
    text << "(" << sizeof(T) << " bytes)";
  }
  return text.str();
}

// As the built-in operators compare: a literal's type is int, and a size is unsigned.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-compare"
struct Eq {
  template <typename A, typename B>
  static bool Holds(const A& a, const B& b) {
    return static_cast<bool>(a == b);
  }
};
struct Ne {
  template <typename A, typename B>
  static bool Holds(const A& a, const B& b) {
    return static_cast<bool>(a != b);
  }
};
struct Lt {
  template <typename A, typename B>
  static bool Holds(const A& a, const B& b) {
    return static_cast<bool>(a < b);
  }
};
struct Le {
  template <typename A, typename B>
  static bool Holds(const A& a, const B& b) {
    return static_cast<bool>(a <= b);
  }
};
struct Gt {
  template <typename A, typename B>
  static bool Holds(const A& a, const B& b) {
    return static_cast<bool>(a > b);
  }
};
struct Ge {
  template <typename A, typename B>
  static bool Holds(const A& a, const B& b) {
    return static_cast<bool>(a >= b);
  }
};
#pragma GCC diagnostic pop

Wrong Differ(const char* a_text, const char* sign, const char* b_text, const std::string& a,
             const std::string& b);

template <typename How, typename A, typename B>
Wrong Compare(const char* a_text, const char* sign, const char* b_text, const A& a, const B& b) {
  if (How::Holds(a, b)) return nullptr;
  return Differ(a_text, sign, b_text, Text(a), Text(b));
}

Wrong IsTrue(const char* text, bool value, bool wanted);
Wrong Near(const char* a_text, const char* b_text, double a, double b, double most);

}  // namespace internal
}  // namespace testing

// The switch keeps a following `else` from binding to this `if`.
#define TESTING_CHECK(wrong, leave)                                 \
  switch (0)                                                        \
  case 0:                                                           \
  default:                                                          \
    if (const ::testing::internal::Wrong tested = (wrong); !tested) \
      ;                                                             \
    else                                                            \
      leave::testing::internal::Failure(__FILE__, __LINE__, tested)
#define TESTING_STAY
#define TESTING_LEAVE return ::testing::internal::Leave() =

#define TESTING_COMPARE(a, how, sign, b, leave) \
  TESTING_CHECK(::testing::internal::Compare<::testing::internal::how>(#a, sign, #b, a, b), leave)

#define EXPECT_EQ(a, b) TESTING_COMPARE(a, Eq, "==", b, TESTING_STAY)
#define EXPECT_NE(a, b) TESTING_COMPARE(a, Ne, "!=", b, TESTING_STAY)
#define EXPECT_LT(a, b) TESTING_COMPARE(a, Lt, "<", b, TESTING_STAY)
#define EXPECT_LE(a, b) TESTING_COMPARE(a, Le, "<=", b, TESTING_STAY)
#define EXPECT_GT(a, b) TESTING_COMPARE(a, Gt, ">", b, TESTING_STAY)
#define EXPECT_GE(a, b) TESTING_COMPARE(a, Ge, ">=", b, TESTING_STAY)
#define EXPECT_TRUE(a) \
  TESTING_CHECK(::testing::internal::IsTrue(#a, static_cast<bool>(a), true), TESTING_STAY)
#define EXPECT_FALSE(a) \
  TESTING_CHECK(::testing::internal::IsTrue(#a, static_cast<bool>(a), false), TESTING_STAY)
#define EXPECT_NEAR(a, b, most) \
  TESTING_CHECK(::testing::internal::Near(#a, #b, a, b, most), TESTING_STAY)
#define ASSERT_EQ(a, b) TESTING_COMPARE(a, Eq, "==", b, TESTING_LEAVE)
#define ASSERT_NE(a, b) TESTING_COMPARE(a, Ne, "!=", b, TESTING_LEAVE)
#define ASSERT_LT(a, b) TESTING_COMPARE(a, Lt, "<", b, TESTING_LEAVE)
#define ASSERT_LE(a, b) TESTING_COMPARE(a, Le, "<=", b, TESTING_LEAVE)
#define ASSERT_GT(a, b) TESTING_COMPARE(a, Gt, ">", b, TESTING_LEAVE)
#define ASSERT_GE(a, b) TESTING_COMPARE(a, Ge, ">=", b, TESTING_LEAVE)
#define ASSERT_TRUE(a) \
  TESTING_CHECK(::testing::internal::IsTrue(#a, static_cast<bool>(a), true), TESTING_LEAVE)
#define ASSERT_FALSE(a) \
  TESTING_CHECK(::testing::internal::IsTrue(#a, static_cast<bool>(a), false), TESTING_LEAVE)
#define ADD_FAILURE() ::testing::internal::Failure(__FILE__, __LINE__, "failed")
#define FAIL() return ::testing::internal::Leave() = ADD_FAILURE()

#define TESTING_CLASS(fixture, name, base)                                    \
  class fixture##_##name##_Test final : public base {                         \
   public:                                                                    \
    static ::testing::Test* NewTest() { return new fixture##_##name##_Test; } \
                                                                              \
   private:                                                                   \
    void TestBody() override;                                                 \
  }
#define TESTING_BODY(fixture, name, add)                          \
  [[maybe_unused]] static const bool fixture##_##name##_added =   \
      add(#fixture "." #name, &fixture##_##name##_Test::NewTest); \
  void fixture##_##name##_Test::TestBody()

#define TEST(suite, name)                      \
  TESTING_CLASS(suite, name, ::testing::Test); \
  TESTING_BODY(suite, name, ::testing::internal::Register)
#define TEST_F(fixture, name)            \
  TESTING_CLASS(fixture, name, fixture); \
  TESTING_BODY(fixture, name, ::testing::internal::Register)
#define TEST_P(fixture, name)            \
  TESTING_CLASS(fixture, name, fixture); \
  TESTING_BODY(fixture, name, ::testing::internal::Suite<fixture>::Add)
#define INSTANTIATE_TEST_SUITE_P(prefix, fixture, values)         \
  [[maybe_unused]] static const bool fixture##_##prefix##_given = \
      ::testing::internal::Suite<fixture>::Give(values)

#endif  // TFQUIVER_OPS_TESTING_TESTING_H_
