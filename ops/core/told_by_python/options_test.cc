#include "ops/core/told_by_python/options.h"

#include "ops/testing/testing.h"

namespace tfquiver {
namespace {

TEST(Options, ReadsEveryKey) {
  Options options;
  ASSERT_TRUE(ParseOptions(R"( {"endpoint": "n\u00e9 \ud83d\ude00\n", "job":"j","batch_size":4,
      "drop_remainder":true,"shuffle_bytes":0,"seed":9,"readahead_bytes":1,"hold_back":2,
      "reconnect_ms":3,"connect_ms":5} )",
                           &options)
                  .ok());
  EXPECT_EQ(options.endpoint, "n\xc3\xa9 \xf0\x9f\x98\x80\n");
  EXPECT_EQ(options.job, "j");
  EXPECT_EQ(options.batch_size, 4);
  EXPECT_TRUE(options.drop_remainder);
  EXPECT_EQ(options.shuffle_bytes, 0);
  EXPECT_EQ(options.seed, 9);
  EXPECT_EQ(options.readahead_bytes, 1);
  EXPECT_EQ(options.hold_back, 2);
  EXPECT_EQ(options.reconnect_ms, 3);
  EXPECT_EQ(options.connect_ms, 5);
  EXPECT_FALSE(options.files);
  EXPECT_TRUE(ParseOptions(R"({"files":true,"shuffle_bytes":0})", &options).ok());
  EXPECT_TRUE(options.files);
  EXPECT_TRUE(ParseOptions("{}", &options).ok());
}

TEST(Options, NamesTheKeyThatIsWrong) {
  Options options;
  const auto message = [&options](const char* json) {
    const Status status = ParseOptions(json, &options);
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << json;
    return status.message();
  };
  EXPECT_NE(message(R"({"sede":1})").find("sede"), std::string::npos);
  EXPECT_NE(message(R"({"batch_size":-1})").find("batch_size is -1"), std::string::npos);
  EXPECT_NE(message(R"({"batch_size":"4"})").find("batch_size"), std::string::npos);
  EXPECT_NE(message(R"({"readahead_bytes":0})").find("readahead_bytes"), std::string::npos);
  for (const char* more :
       {R"("seed":1)", R"("shuffle_bytes":0,"deterministic":true,"seed":1)",
        R"("shuffle_bytes":0,"homogeneous":true)", R"("shuffle_bytes":0,"tagged":true)",
        R"("shuffle_bytes":0,"replay":"a")"}) {
    options = Options();
    EXPECT_NE(message((std::string(R"({"files":true,)") + more + "}").c_str()).find("files is an"),
              std::string::npos);
  }
  options = Options();
  EXPECT_TRUE(ParseOptions(R"({"sampling":"weighted:0","seed":1})", &options).ok());
  EXPECT_EQ(options.sampling, "weighted:0");
  for (const char* more :
       {R"("seed":0)", R"("seed":1,"deterministic":true)", R"("seed":1,"homogeneous":true)",
        R"("seed":1,"tagged":true)", R"("seed":1,"order_log":"a")"}) {
    options = Options();
    const std::string json = std::string(R"({"sampling":"a",)") + more + "}";
    EXPECT_NE(message(json.c_str()).find("sampling needs a seed"), std::string::npos) << json;
  }
  options = Options();
  EXPECT_TRUE(ParseOptions(R"({"joins":true})", &options).ok());
  EXPECT_TRUE(options.joins);
  for (const char* more : {R"("files":true,"shuffle_bytes":0)", R"("tagged":true)",
                           R"("order_log":"a")", R"("sampling":"a","seed":1)"}) {
    options = Options();
    const std::string json = std::string(R"({"joins":true,)") + more + "}";
    EXPECT_NE(message(json.c_str()).find("joins: a stream"), std::string::npos) << json;
  }
  for (const char* json : {"", "{", "[]", "{\"job\"}", "{\"job\":}", "{\"job\":\"a}", "{} x",
                           "{\"job\":\"\\ud83d\"}", "{\"job\":\"\\u12\"}", "{\"seed\":1.5}",
                           "{\"seed\":99999999999999999999}", "{\"job\":\"a\",}"}) {
    message(json);
  }
}

}  // namespace
}  // namespace tfquiver
