#include "thinwire/planner/exchange_cost.h"

namespace thinwire::planner {
namespace {

class Coster {
 public:
  Coster(const Machine& machine, const comm::ExchangeShape& shape)
      : shape_(shape),
        matrix_(machine.SpeedOf(shape.codecs.matrix->name())),
        vector_(machine.SpeedOf(shape.codecs.vector->name())) {}

  double Of(const comm::Piece& piece, double CodecSpeed::*what) const {
    return static_cast<double>(piece.matrix.size()) * matrix_.*what +
           static_cast<double>(piece.vector.size()) * vector_.*what;
  }
  double OfAll(double CodecSpeed::*what) const {
    double seconds = 0;
    for (const auto& parcel : shape_.parcels) {
      for (const comm::Piece& piece : parcel) seconds += Of(piece, what);
    }
    return seconds;
  }

 private:
  const comm::ExchangeShape& shape_;
  const CodecSpeed& matrix_;
  const CodecSpeed& vector_;
};

// Gradients are rotated as a whole before the fast hop, sums of this rank's part back after the
// slow.
void AddRotation(const Machine& machine, zero::Hop hop, const comm::ExchangeShape& shape,
                 ExchangeCost& cost) {
  for (int m = 0; m < shape.members() && hop == zero::Hop::kFastReduce; ++m) {
    cost.send_s += machine.rotate_s * static_cast<double>(shape.piece(m).matrix.size());
  }
  if (hop == zero::Hop::kSlowReduce) {
    cost.complete_s += machine.rotate_s * static_cast<double>(shape.mine().matrix.size());
  }
}

}  // namespace

ExchangeCost CostOf(const Machine& machine, const zero::Recipe& recipe, zero::Hop hop,
                    const comm::ExchangeShape& shape, double coded_share) {
  const Coster coster(machine, shape);
  const bool passes_codes = recipe.forwards_codes();
  const int members = shape.members();
  ExchangeCost cost{.bytes = static_cast<double>(shape.sent_bytes())};
  if (shape.coded()) cost.bytes *= coded_share;
  if (shape.direction == comm::Direction::kReduce) {
    for (int m = 0; m < members; ++m) {
      if (m != shape.me) cost.send_s += coster.Of(shape.piece(m), &CodecSpeed::encode_s);
    }
    cost.complete_s = members * coster.Of(shape.mine(), &CodecSpeed::sum_s);
    if (recipe.rotation != 0) AddRotation(machine, hop, shape, cost);
    return cost;
  }
  const auto copy = [&](int64_t bytes) {
    return machine.copy_s_per_byte * static_cast<double>(bytes);
  };
  if (hop == zero::Hop::kFastGather && passes_codes) {
    cost.send_s = members > 1 ? copy(shape.payload_bytes()) : 0;
  } else if (members > 1) {
    cost.send_s = coster.Of(shape.mine(), &CodecSpeed::encode_s);
  }
  if (hop == zero::Hop::kSlowGather && passes_codes) {
    for (const int64_t bytes : shape.message_bytes) cost.complete_s += copy(bytes);
  } else {
    // Differences are added to what is there.
    const bool adds = hop == zero::Hop::kSlowGather && recipe.sends_differences();
    cost.complete_s = coster.OfAll(adds ? &CodecSpeed::sum_s : &CodecSpeed::decode_s);
    if (adds) cost.send_s += machine.difference_s * static_cast<double>(shape.mine().matrix.size());
  }
  return cost;
}

}  // namespace thinwire::planner
