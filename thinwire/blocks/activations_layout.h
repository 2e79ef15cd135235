// How a tile of W tokens lies in memory. Whatever a vector instruction takes from one place and
// gives to all 16 rows stands beside the same of the next token.
//
//   fp32   column 0 of W tokens, column 1 of W tokens, ...
//   int8   blocks of 32 columns, each
//            8 times     four codes of each token: columns 4 v to 4 v + 3
//            W fp32      scales
//            W int32     -128 times the sum of the 32 codes
//            W int32     -128 times that of the first 16
//            W int32     -128 times that of the last 16
//
// W is 12, but less in the last tile: 1, 2, 4, 8 or 12, whatever has room for the tokens left.
#pragma once

#include <cstdint>

namespace thinwire::blocks {

constexpr int64_t kTileTokens = 12;
constexpr int64_t kBlockColumns = 32;

// For `left` >= 1 tokens that are not in tiles yet.
constexpr int64_t TileWidth(int64_t left) {
  return left <= 2 ? left : left <= 4 ? 4 : left <= 8 ? 8 : kTileTokens;
}

// Places in a block of int8, bytes per token.
constexpr int64_t kCodesBytes = 32;
constexpr int64_t kScalePlace = 32;
constexpr int64_t kSumPlace = 36;
constexpr int64_t kFirstSumPlace = 40;
constexpr int64_t kLastSumPlace = 44;
constexpr int64_t kBlockBytesPerToken = 48;

}  // namespace thinwire::blocks
