#include "thinwire/train/data.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "thinwire/base/error.h"

namespace thinwire::train {
namespace {

namespace fs = std::filesystem;

class DataTest : public testing::Test {
 protected:
  DataTest() : root_(fs::path(testing::TempDir()) / "data_test_XXXXXX") {
    std::string name = root_.string();
    root_ = mkdtemp(name.data());
  }
  ~DataTest() override { fs::remove_all(root_); }

  std::string Write(const std::string& name, std::string_view text) {
    const fs::path path = root_ / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
    return path.string();
  }
  std::string ErrorOf(const std::vector<std::string>& patterns) {
    try {
      const ByteCorpus corpus(FindFiles(patterns));
    } catch (const UsageError& error) {
      return error.what();
    }
    return "no error";
  }

  fs::path root_;
};

TEST_F(DataTest, DirectoriesGiveTheirTextFilesSorted) {
  const std::string b = Write("b.txt", "bb"), a = Write("x/a.py", "a");
  Write("x/a.pyc", std::string_view("\0\1", 2));
  Write(".hidden/c.txt", "c");
  Write("x/.d", "d");
  EXPECT_EQ(FindFiles(std::vector{root_.string(), b}), (std::vector{b, a}));
  EXPECT_EQ(FindFiles(std::vector{(root_ / "x" / "*.py").string()}), std::vector{a});
}

TEST_F(DataTest, TokensRunThroughDocuments) {
  const ByteCorpus corpus({Write("a", "ab"), Write("b", ""),
                           Write("c",
                                 "\xff"
                                 "c")});
  const std::vector<int64_t> want = {'a', 'b', 256, 256, 255, 'c', 256};
  ASSERT_EQ(corpus.tokens(), 7);
  for (size_t begin = 0; begin < want.size(); ++begin) {
    for (size_t count = 0; count <= want.size() - begin; ++count) {
      std::vector<int64_t> got(count);
      corpus.Read(static_cast<int64_t>(begin), got);
      EXPECT_TRUE(std::equal(got.begin(), got.end(), want.begin() + static_cast<int64_t>(begin)));
    }
  }
}

TEST_F(DataTest, BadPathsAreNamed) {
  const std::string absent = (root_ / "absent").string(), empty = Write("empty.txt", "");
  EXPECT_NE(ErrorOf({absent}).find(absent + " does not exist"), std::string::npos);
  EXPECT_NE(ErrorOf({empty}).find(empty + " is empty"), std::string::npos);
  fs::create_directory(root_ / "bare");
  EXPECT_NE(ErrorOf({(root_ / "bare").string()}).find("has no text files"), std::string::npos);
}

TEST_F(DataTest, AFileThatShrinksIsAnError) {
  const std::string path = Write("a", "0123456789");
  const ByteCorpus corpus({path});
  fs::resize_file(path, 3);
  std::vector<int64_t> out(8);
  EXPECT_THROW(corpus.Read(0, out), IoError);
}

TEST(PermutationTest, EverySizeIsPermuted) {
  for (int64_t size = 1; size < 200; ++size) {
    const Permutation permutation(size, 7);
    std::set<int64_t> seen;
    for (int64_t i = 0; i < size; ++i) seen.insert(permutation(i));
    EXPECT_EQ(std::ssize(seen), size);
    EXPECT_EQ(*seen.rbegin(), size - 1);
  }
}

TEST(PermutationTest, KeysGiveOtherOrders) {
  const Permutation a(1000, 1), b(1000, 2);
  int same = 0, fixed = 0;
  for (int64_t i = 0; i < 1000; ++i) {
    same += a(i) == b(i);
    fixed += a(i) == i;
  }
  EXPECT_LT(same, 10);  // 1 expected
  EXPECT_LT(fixed, 10);
}

TEST_F(DataTest, AnEpochDrawsEveryWindowOnce) {
  std::string text;
  for (int i = 0; i < 203; ++i) text += static_cast<char>(i);
  const ByteCorpus corpus({Write("a", text)});
  const Sampler sampler(corpus, {0, 204}, 10, 5, "training");
  ASSERT_EQ(sampler.windows(), 20);
  std::vector<int64_t> inputs(10), targets(10), orders[2];
  for (int64_t n = 0; n < 40; ++n) {
    sampler.Sample(n, inputs, targets);
    orders[n / 20].push_back(inputs[0]);
    for (size_t i = 0; i + 1 < 10; ++i) EXPECT_EQ(targets[i], inputs[i + 1]);
  }
  EXPECT_NE(orders[0], orders[1]);
  for (auto& order : orders) {
    std::ranges::sort(order);
    for (size_t w = 0; w < 20; ++w) EXPECT_EQ(order[w], static_cast<int64_t>(w) * 10);
  }
}

TEST_F(DataTest, TooLittleTextSaysWhatToChange) {
  const ByteCorpus corpus({Write("a", "0123456789")});
  const Split split = SplitCorpus(corpus.tokens(), 0.5);
  EXPECT_EQ(split.train.end, split.evaluation.begin);
  EXPECT_NO_THROW(Sampler(corpus, split.train, 5, 1, "training"));
  try {
    Sampler(corpus, split.evaluation, 5, 1, "evaluation");
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_STREQ(error.what(),
                 "data.files: the evaluation part has 5 tokens of 11, but data.sequence_length = 5 "
                 "needs 6; give more text or a shorter sequence or change "
                 "data.evaluation_fraction");
  }
}

}  // namespace
}  // namespace thinwire::train
