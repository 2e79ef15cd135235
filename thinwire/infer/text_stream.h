// The tokens of a request as text that is shown piece by piece, up to a stop string.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/infer/scheduler.h"
#include "thinwire/text/decoder.h"

namespace thinwire::infer {

class TextStream : public TokenSink {
 public:
  // Gets each new piece of text, whole UTF-8 characters. False: no more.
  using Show = std::function<bool(std::string_view piece)>;

  // Text from the first of `stops` (none of them empty) on is not shown. `vocabulary` must outlive
  // this. Allocates nothing after it is made.
  TextStream(const text::Vocabulary& vocabulary, std::vector<std::string> stops, Show show);

  bool OnToken(const Sampled& sampled) override;
  void OnEnd(Finish finish) override;

  // Of the request that ended.
  bool ended() const { return ended_; }
  Finish finish() const { return finish_; }
  // Whether a stop string ended it; finish() is kEnd then.
  bool stopped() const { return stopped_; }
  int64_t tokens() const { return tokens_; }

 private:
  bool ShowUpTo(size_t end);
  // Where the first stop string in what is held back begins, or npos.
  size_t FindStop() const;
  // Length of the longest end of what is held back that a stop string may begin with.
  size_t MayBegin() const;

  text::Decoder decoder_;
  const std::vector<std::string> stops_;
  const Show show_;
  std::string held_;  // not shown yet
  std::vector<char> piece_;
  int64_t tokens_ = 0;
  Finish finish_ = Finish::kEnd;
  bool ended_ = false;
  bool stopped_ = false;
};

}  // namespace thinwire::infer
