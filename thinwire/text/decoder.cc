#include "thinwire/text/decoder.h"

#include <algorithm>
#include <string_view>

#include "thinwire/base/error.h"
#include "thinwire/text/utf8.h"

namespace thinwire::text {

class Decoder::Writer {
 public:
  Writer(Decoder* decoder, std::span<char> out) : decoder_(*decoder), out_(out) {
    THINWIRE_CHECK(out.size() >= decoder->MaxBytes(), out.size());
  }

  size_t written() const { return written_; }

  void Add(char byte) {
    auto& waiting = decoder_.waiting_;
    waiting[decoder_.waiting_bytes_++] = byte;
    while (decoder_.waiting_bytes_ > 0) {
      const Utf8Step step = NextUtf8({waiting.data(), decoder_.waiting_bytes_});
      if (step.state == Utf8State::kIncomplete) return;
      const bool valid = step.state == Utf8State::kValid;
      Write(valid ? std::string_view(waiting.data(), step.size) : kReplacement);
      std::copy(waiting.begin() + step.size, waiting.begin() + decoder_.waiting_bytes_,
                waiting.begin());
      decoder_.waiting_bytes_ = static_cast<uint8_t>(decoder_.waiting_bytes_ - step.size);
    }
  }

  void Write(std::string_view text) {
    const bool strip = decoder_.strip_space_ && text == " ";
    decoder_.strip_space_ = false;
    if (strip) return;
    std::ranges::copy(text, out_.begin() + static_cast<ptrdiff_t>(written_));
    written_ += text.size();
  }

 private:
  Decoder& decoder_;
  std::span<char> out_;
  size_t written_ = 0;
};

Decoder::Decoder(const Vocabulary& vocabulary, const DecodeOptions& options)
    : vocabulary_(&vocabulary),
      skip_special_(options.skip_special),
      strip_space_(options.strip_space_prefix && vocabulary.add_space_prefix()) {}

size_t Decoder::Append(int32_t id, std::span<char> out) {
  if (id < 0 || id >= vocabulary_->size()) return 0;
  const TokenType type = vocabulary_->Type(id);
  const bool special = type == TokenType::kControl || type == TokenType::kUnknown;
  if (special && skip_special_) return 0;
  Writer writer(this, out);
  for (const char byte : vocabulary_->Bytes(id)) writer.Add(byte);
  return writer.written();
}

size_t Decoder::Finish(std::span<char> out) {
  Writer writer(this, out);
  if (waiting_bytes_ > 0) writer.Write(kReplacement);
  waiting_bytes_ = 0;
  return writer.written();
}

}  // namespace thinwire::text
