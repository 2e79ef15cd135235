#include "thinwire/comm/agreement.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "thinwire/base/error.h"

namespace thinwire::comm {

void Record::SetIntent(uint64_t hash, const char* format, ...) {
  fingerprint = hash;
  intent.fill('\0');
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(intent.data(), intent.size(), format, arguments);
  va_end(arguments);
}

std::string_view Record::Intent() const {
  return {intent.data(), ::strnlen(intent.data(), intent.size())};
}

Agreement::Agreement(transport::Transport& control, ExecContext context)
    : control_(control),
      context_(context),
      records_(static_cast<size_t>(control.size())),
      tokens_(2 * static_cast<size_t>(control.size())) {}

void Agreement::Share(std::span<std::byte> all, size_t stride) {
  const size_t me = static_cast<size_t>(control_.rank());
  const transport::Tag tag = sequence_++ & 0x3fffffffu;
  for (size_t peer = 0; peer < records_.size(); ++peer) {
    if (peer == me) continue;
    tokens_[2 * peer] =
        control_.Recv(context_, static_cast<int>(peer), tag, all.subspan(peer * stride, stride));
  }
  for (size_t peer = 0; peer < records_.size(); ++peer) {
    if (peer == me) continue;
    tokens_[2 * peer + 1] =
        control_.Send(context_, static_cast<int>(peer), tag, all.subspan(me * stride, stride));
    sent_bytes_ += static_cast<int64_t>(stride);
  }
  for (size_t t = 0; t < tokens_.size(); ++t) {
    if (!tokens_[t]) continue;
    {
      const std::lock_guard lock(waiting_mutex_);
      waiting_.peer = static_cast<int>(t / 2);
    }
    tokens_[t]->Wait();
    tokens_[t].reset();
  }
  const std::lock_guard lock(waiting_mutex_);
  waiting_ = {};
}

void Agreement::BeginToWait(std::string_view intent, Patience patience) {
  const std::lock_guard lock(waiting_mutex_);
  waiting_ = {.patience = patience, .since = std::chrono::steady_clock::now()};
  std::ranges::copy(intent.substr(0, waiting_.intent.size() - 1), waiting_.intent.begin());
}

void Agreement::Reserve(size_t values) { summands_.reserve(records_.size() * values); }

void Agreement::Sum(std::span<double> values) {
  if (values.empty()) return;
  BeginToWait("a sum over ranks", Patience::kEndless);
  const size_t count = values.size();
  summands_.resize(records_.size() * count);
  std::ranges::copy(values,
                    summands_.begin() + static_cast<std::ptrdiff_t>(count) * control_.rank());
  Share(std::as_writable_bytes(std::span(summands_)), values.size_bytes());
  for (size_t i = 0; i < count; ++i) {
    values[i] = 0;
    for (size_t rank = 0; rank < records_.size(); ++rank) values[i] += summands_[rank * count + i];
  }
}

Waiting Agreement::waiting() const {
  const std::lock_guard lock(waiting_mutex_);
  return waiting_;
}

std::span<const Record> Agreement::Exchange(const Record& mine, Patience patience) {
  BeginToWait(mine.Intent(), patience);
  records_[static_cast<size_t>(control_.rank())] = mine;
  Share(std::as_writable_bytes(std::span(records_)), sizeof(Record));
  const auto leads = [](const Record& record) { return !record.follows(); };
  const auto leader = std::ranges::find_if(records_, leads);
  if (leader == records_.end()) return records_;
  const bool followed = !std::ranges::all_of(records_, leads);
  const bool agreed = std::ranges::all_of(records_, [&](const Record& record) {
    if (record.follows()) return true;
    return record.fingerprint == leader->fingerprint && record.intent == leader->intent &&
           (!followed || (record.flags & Record::kMayBeFollowed) != 0);
  });
  if (agreed) return records_;

  // Equal words with unequal contents would not say much: show the fingerprints then.
  const bool same_words = std::ranges::all_of(
      records_, [&](const Record& record) { return record.intent == records_[0].intent; });
  std::string message = "the ranks disagree on what comes next:";
  for (size_t rank = 0; rank < records_.size(); ++rank) {
    message += StrCat(rank == 0 ? "" : ";", " rank ", rank, " wants ", records_[rank].Intent());
    if (same_words) message += StrCat(" (fingerprint ", records_[rank].fingerprint, ")");
  }
  throw PeerError(message + ". The same model code and config must run on every rank");
}

double SumOf(std::span<const Record> records, size_t which) {
  double sum = 0;
  for (const Record& record : records) sum += record.values[which];
  return sum;
}

}  // namespace thinwire::comm
