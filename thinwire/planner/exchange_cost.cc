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
  double DecodeAll() const {
    double seconds = 0;
    for (const auto& parcel : shape_.parcels) {
      for (const comm::Piece& piece : parcel) seconds += Of(piece, &CodecSpeed::decode_s);
    }
    return seconds;
  }

 private:
  const comm::ExchangeShape& shape_;
  const CodecSpeed& matrix_;
  const CodecSpeed& vector_;
};

}  // namespace

ExchangeCost CostOf(const Machine& machine, const zero::Recipe& recipe, zero::Hop hop,
                    const comm::ExchangeShape& shape) {
  const Coster coster(machine, shape);
  const bool passes_codes = recipe.forwards_codes();
  const int members = shape.members();
  ExchangeCost cost{.bytes = static_cast<double>(shape.sent_bytes())};
  if (shape.direction == comm::Direction::kReduce) {
    for (int m = 0; m < members; ++m) {
      if (m != shape.me) cost.send_s += coster.Of(shape.piece(m), &CodecSpeed::encode_s);
    }
    cost.complete_s = members * coster.Of(shape.mine(), &CodecSpeed::sum_s);
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
    cost.complete_s = coster.DecodeAll();
  }
  return cost;
}

}  // namespace thinwire::planner
