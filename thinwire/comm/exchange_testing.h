// What tests of exchanges share: a flat in shards, and a link that damages a message.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "thinwire/comm/exchange.h"

namespace thinwire::comm {

// Matrices and vectors by their sizes, cut for the members of a group.
struct Flat {
  Partition matrix, vector;

  Flat(std::vector<int64_t> matrices, std::vector<int64_t> vectors, int members)
      : matrix(std::move(matrices), members, 1), vector(std::move(vectors), members, 1) {}

  int64_t size() const { return matrix.size() + vector.size(); }
  Piece PieceOf(int member) const {
    return {matrix, matrix.Shard(0, member), vector, vector.Shard(0, member)};
  }
  Image ImageOf(std::vector<float>& values) const {
    return MakeImage(reinterpret_cast<std::byte*>(values.data()), DType::kF32, {0, matrix.size()},
                     {0, vector.size()});
  }
  // Of all members, as rank `rank` of as many ranks has it.
  ExchangeShape ShapeOf(Direction direction, int members, int rank, const HopCodecs& codecs) const {
    std::vector<int> ranks;
    std::vector<Piece> pieces;
    for (int m = 0; m < members; ++m) {
      ranks.push_back(m);
      pieces.push_back(PieceOf(m));
    }
    return {direction, ranks, rank, codecs, pieces};
  }
};

// Bits of one byte of one message that change on their way.
struct Damage {
  int64_t message = -1;  // of those that the link sends, from 0; -1: none
  size_t byte = 0;       // or the last
  std::byte bits{};
};

class DamagingTransport final : public transport::Transport {
 public:
  DamagingTransport(transport::Transport& wrapped, Damage damage)
      : wrapped_(wrapped), damage_(damage) {}
  int rank() const override { return wrapped_.rank(); }
  int size() const override { return wrapped_.size(); }
  void Abort(std::string_view reason) noexcept override { wrapped_.Abort(reason); }
  transport::Token Send(const ExecContext& context, int peer, transport::Tag tag,
                        std::span<const std::byte> bytes) override {
    std::vector<std::byte>& sent = sent_.emplace_back(bytes.begin(), bytes.end());
    if (damage_.message-- == 0) sent[std::min(damage_.byte, sent.size() - 1)] ^= damage_.bits;
    return wrapped_.Send(context, peer, tag, sent);
  }
  transport::Token Recv(const ExecContext& context, int peer, transport::Tag tag,
                        std::span<std::byte> bytes) override {
    return wrapped_.Recv(context, peer, tag, bytes);
  }

 private:
  transport::Transport& wrapped_;
  Damage damage_;
  std::vector<std::vector<std::byte>> sent_;
};

}  // namespace thinwire::comm
