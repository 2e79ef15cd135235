#include "thinwire/infer/text_stream.h"

#include <algorithm>
#include <utility>

#include "thinwire/base/error.h"

namespace thinwire::infer {

TextStream::TextStream(const text::Vocabulary& vocabulary, std::vector<std::string> stops,
                       Show show)
    : decoder_(vocabulary), stops_(std::move(stops)), show_(std::move(show)) {
  size_t longest = 0;
  for (const std::string& stop : stops_) {
    if (stop.empty()) throw UsageError("stop: an empty string would end every answer at once");
    longest = std::max(longest, stop.size());
  }
  piece_.resize(decoder_.MaxBytes());
  held_.reserve(longest + 2 * piece_.size());
}

size_t TextStream::FindStop() const {
  size_t first = std::string::npos;
  for (const std::string& stop : stops_) first = std::min(first, held_.find(stop));
  return first;
}

size_t TextStream::MayBegin() const {
  const std::string_view held = held_;
  size_t most = 0;
  for (const std::string_view stop : stops_) {
    for (size_t size = std::min(stop.size() - 1, held.size()); size > most; --size) {
      if (held.ends_with(stop.substr(0, size))) most = size;
    }
  }
  return most;
}

bool TextStream::ShowUpTo(size_t end) {
  const bool goes_on = end == 0 || show_(std::string_view(held_).substr(0, end));
  held_.erase(0, end);
  return goes_on;
}

bool TextStream::OnToken(const Sampled& sampled) {
  ++tokens_;
  held_.append(piece_.data(), decoder_.Append(sampled.token, piece_));
  const size_t stop = FindStop();
  if (stop == std::string::npos) return ShowUpTo(held_.size() - MayBegin());
  stopped_ = true;
  ShowUpTo(stop);
  held_.clear();
  return false;
}

void TextStream::OnEnd(Finish finish) {
  ended_ = true;
  finish_ = stopped_ ? Finish::kEnd : finish;
  if (stopped_) return;
  held_.append(piece_.data(), decoder_.Finish(piece_));
  ShowUpTo(held_.size());
}

}  // namespace thinwire::infer
