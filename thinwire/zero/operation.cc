#include "thinwire/zero/operation.h"

#include "thinwire/base/error.h"
#include "thinwire/base/random.h"
#include "thinwire/kernels/difference.h"
#include "thinwire/kernels/sum.h"
#include "thinwire/zero/rotation.h"

namespace thinwire::zero {
namespace {

using Kind = UnitOperation::Kind;

void DivideImage(const ExecContext& context, const comm::Image& image, const comm::Piece& piece,
                 float divisor) {
  kernels::Divide(context, image.Matrix(piece.matrix).As<float>(), divisor);
  kernels::Divide(context, image.Vector(piece.vector).As<float>(), divisor);
}

}  // namespace

bool Uses(const Plan& plan, const UnitOperation& operation, Hop hop) {
  switch (operation.kind) {
    case Kind::kGather:
      return hop == Hop::kFastGather ||
             (hop == Hop::kSlowGather && plan.recipe.kept == Kept::kNothing);
    case Kind::kReduce:
      if (plan.accumulates_units() && !operation.last) return false;
      return hop == Hop::kFastReduce || (hop == Hop::kSlowReduce && operation.last);
    case Kind::kPush:
      return hop == Hop::kSlowGather || (hop == Hop::kFastGather && plan.resident());
  }
  return false;
}

const comm::ExchangeShape& HopJob::shape() const {
  return board_.plan.routes[static_cast<size_t>(operation_.unit)].of(
      hop_, operation_.full)[static_cast<size_t>(chunk_)];
}

comm::Image HopJob::Flat() const {
  return FlatImage(board_.plan.units[static_cast<size_t>(operation_.unit)],
                   board_.memory.unit_buffers[static_cast<size_t>(operation_.buffer)].data());
}

comm::Image HopJob::Weights() const {
  if (!board_.plan.keeps_slice()) return Flat();
  return board_.memory.units[static_cast<size_t>(operation_.unit)].kept;
}

bool HopJob::CarriesDifferences() const {
  return hop_ == Hop::kSlowGather && board_.plan.recipe.sends_differences() && !operation_.full;
}

comm::Image HopJob::Slice() const {
  const size_t u = static_cast<size_t>(operation_.unit);
  if (board_.plan.accumulates_slices()) return board_.memory.units[u].accumulator;
  return SliceImage(board_.plan.units[u], board_.plan.topology, DType::kF32,
                    board_.memory.staging[static_cast<size_t>(operation_.staging)].data());
}

std::span<std::byte> HopJob::Codes() const {
  if (!board_.plan.recipe.forwards_codes()) return {};
  const size_t u = static_cast<size_t>(operation_.unit);
  const Routes& routes = board_.plan.routes[u];
  if (routes.code_bytes() == 0) return {};  // there may be no buffer at all
  const std::span<std::byte> all =
      board_.plan.recipe.kept == Kept::kCodes
          ? board_.memory.units[u].codes
          : board_.memory
                .code_buffers[static_cast<size_t>(
                    operation_.kind == Kind::kPush ? operation_.staging : operation_.buffer)]
                .bytes();
  const size_t chunk = static_cast<size_t>(chunk_);
  return all.subspan(static_cast<size_t>(routes.code_offset(chunk)),
                     static_cast<size_t>(routes.of(Hop::kFastGather)[chunk].payload_bytes()));
}

comm::Operand HopJob::Source() const {
  const size_t u = static_cast<size_t>(operation_.unit);
  const UnitMemory& held = board_.memory.units[u];
  switch (hop_) {
    case Hop::kSlowGather: {
      comm::Image source = held.master;
      if (CarriesDifferences()) source.matrix = held.gradient.matrix;
      return {source};
    }
    case Hop::kFastGather:
      return {Weights(), Codes()};
    case Hop::kFastReduce:
      if (board_.plan.accumulates_units()) return {held.accumulator};
      return {
          FlatImage(board_.plan.units[u],
                    board_.memory.gradient_buffers[static_cast<size_t>(operation_.buffer)].data())};
    case Hop::kSlowReduce: {
      comm::Operand source(Slice());
      if (!held.residuals.empty()) source.residuals = &held.residuals[static_cast<size_t>(chunk_)];
      return source;
    }
  }
  return {};
}

comm::Operand HopJob::Target() const {
  const UnitMemory& held = board_.memory.units[static_cast<size_t>(operation_.unit)];
  switch (hop_) {
    case Hop::kSlowGather: {
      if (board_.plan.recipe.forwards_codes()) return {{}, Codes()};
      comm::Operand target(Weights());
      target.adds = CarriesDifferences();
      return target;
    }
    case Hop::kFastGather:
      return {Flat()};
    case Hop::kFastReduce:
      return {Slice()};
    case Hop::kSlowReduce:
      return {held.gradient};
  }
  return {};
}

void HopJob::Prepare(comm::MessageSlot& slot, transport::Tag tag) {
  stamp_ = {tag, Mix64(fingerprint_ ^ operation_.epoch),
            next_ == 0 ? 0 : Mix64(next_ ^ operation_.epoch)};
  if (shape().coded()) {
    UnitMemory& held = board_.memory.units[static_cast<size_t>(operation_.unit)];
    stamp_.sizes = &held.sizes[Index(hop_)][static_cast<size_t>(chunk_)];
  }
  sent_bytes_ = shape().sent_bytes();
  board_.exchange.PostReceives(shape(), stamp_, slot);
}

// What this chunk of the fast gather sends, when so many chunks of the slow one are missing. Codes
// that are passed on travel in the same chunks on both hops.
bool HopJob::SliceIsHere(int slow_left) const {
  if (!board_.plan.recipe.forwards_codes()) return slow_left == 0;
  const Routes& routes = board_.plan.routes[static_cast<size_t>(operation_.unit)];
  return static_cast<int>(routes.of(Hop::kSlowGather).size()) - slow_left > chunk_;
}

// Codes that are passed on and not kept lie in one of a few buffers until the fast hop has sent
// them.
bool HopJob::PushIsReady() const {
  if (hop_ == Hop::kFastGather) return SliceIsHere(operation_.slow_left);
  if (!operation_.input) return false;
  if (!board_.plan.resident() || !board_.plan.recipe.forwards_codes()) return true;
  const void*& user = board_.codes_user[static_cast<size_t>(operation_.staging)];
  if (user == nullptr) user = &operation_;
  return user == &operation_;
}

bool HopJob::ReduceIsReady() const {
  if (hop_ == Hop::kSlowReduce) return operation_.fast_left == 0;
  if (!operation_.input) return false;
  if (board_.plan.accumulates_slices()) return true;
  const void*& user = board_.staging_user[static_cast<size_t>(operation_.staging)];
  if (user == nullptr) user = &operation_;
  return user == &operation_;
}

bool HopJob::Ready() {
  switch (operation_.kind) {
    case Kind::kPush:
      return PushIsReady();
    case Kind::kReduce:
      return ReduceIsReady();
    case Kind::kGather:
      if (board_.events_done <= operation_.after_event) return false;
      return hop_ == Hop::kSlowGather ||
             SliceIsHere(operation_.slow_left +
                         board_.pushes_left[static_cast<size_t>(operation_.unit)]);
  }
  return false;
}

TraceTrack& HopJob::Track(bool out) const {
  using enum TrackOf;
  return board_.track(IsSlow(hop_) ? (out ? kSlowOut : kSlowIn) : (out ? kFastOut : kFastIn));
}

void HopJob::Enter(Doing doing, int64_t at_ns) const {
  TraceTrack& track = Track(doing == Doing::kAwaitInput || doing == Doing::kSend);
  if (!track.on()) return;
  track.EnterAt({.doing = Number(doing),
                 .kind = static_cast<uint32_t>(hop_),
                 .subject = operation_.unit,
                 .part = chunk_,
                 .bytes = sent_bytes_},
                at_ns);
}

// They stand in the room of the gradient, which the optimizer is done with.
void HopJob::TakeDifferences() {
  const size_t u = static_cast<size_t>(operation_.unit);
  const UnitMemory& held = board_.memory.units[u];
  const comm::Range range = shape().mine().matrix;
  const std::span<float> differences = held.gradient.Matrix(range).As<float>();
  const ExecContext& context = board_.exchange.context();
  kernels::Subtract(context, held.master.Matrix(range), Weights().Matrix(range), differences);
  if (operation_.measured) {
    board_.difference_squares[u] += kernels::SumOfSquares(context, differences);
  }
}

kernels::Rotation HopJob::Rotation() const {
  return RotationOf(board_.plan.recipe, operation_.unit, operation_.step);
}

// Sums of whole units are of rotated gradients already.
void HopJob::RotateGradients() {
  if (board_.plan.recipe.rotation == 0 || board_.plan.accumulates_units()) return;
  RotatePieces(board_.exchange.context(), Rotation(),
               board_.plan.units[static_cast<size_t>(operation_.unit)], shape(), Source().image);
}

void HopJob::Launch(comm::MessageSlot& slot) {
  launched_ = HopClock::now();
  Enter(Doing::kSend, TraceNow());
  if (CarriesDifferences()) TakeDifferences();
  if (hop_ == Hop::kFastReduce) RotateGradients();
  board_.exchange.Send(shape(), stamp_, Source(), slot, board_.traffic[Index(hop_)]);
  sent_bytes_ = slot.sent_bytes();
  Track(true).Enter({.doing = Number(Doing::kIdle)});
}

void HopJob::Complete(comm::MessageSlot& slot) {
  Enter(Doing::kAwaitPeers, TraceNow());
  Finish(slot);
  // What it did after the last message had come is known only now.
  Enter(Doing::kDecode, TraceTime(slot.arrived()));
}

void HopJob::Finish(comm::MessageSlot& slot) {
  if (operation_.kind != Kind::kReduce) {
    board_.exchange.CompleteGather(shape(), stamp_, Source(), Target(), slot);
    return;
  }
  const bool accumulate = hop_ == Hop::kFastReduce && operation_.accumulate;
  board_.exchange.CompleteReduce(shape(), stamp_, Source().image, accumulate, Target().image, slot);
  if (hop_ == Hop::kSlowReduce) {
    if (board_.plan.recipe.rotation != 0) {
      const comm::Piece& mine = shape().mine();
      RotateRowsBack(board_.exchange.context(), Rotation(),
                     board_.plan.units[static_cast<size_t>(operation_.unit)], mine,
                     Target().image.Matrix(mine.matrix).As<float>());
    }
    const int micro_batches = board_.plan.options.average_micro_batches ? board_.micro_batches : 1;
    const float count =
        static_cast<float>(board_.plan.topology.world()) * static_cast<float>(micro_batches);
    DivideImage(board_.exchange.context(), Target().image, shape().mine(), count);
  }
}

void HopJob::FinishReduce() {
  if (hop_ == Hop::kFastReduce && operation_.fast_left == 0) {
    board_.gradient_buffer_busy[static_cast<size_t>(operation_.buffer)] = false;
  }
  if (hop_ == Hop::kSlowReduce && operation_.slow_left == 0) {
    board_.gradient_is_new[static_cast<size_t>(operation_.unit)] = true;
    if (!board_.plan.accumulates_slices()) {
      board_.staging_user[static_cast<size_t>(operation_.staging)] = nullptr;
    }
  }
}

void HopJob::Count() {
  if (shape().members() == 1) return;
  const HopSpan span = board_.watch.Complete(hop_, operation_.unit, sent_bytes_, launched_);
  comm::HopTraffic& traffic = board_.traffic[Index(hop_)];
  traffic.exchanges.fetch_add(1, std::memory_order_relaxed);
  traffic.nanoseconds.fetch_add(span.duration().count(), std::memory_order_relaxed);
}

void HopJob::Finished() {
  Count();
  Track(false).Enter({.doing = Number(Doing::kIdle)});
  --(IsSlow(hop_) ? operation_.slow_left : operation_.fast_left);
  if (operation_.kind == Kind::kReduce) FinishReduce();
  if (operation_.kind == Kind::kPush) {
    --board_.pushes_left[static_cast<size_t>(operation_.unit)];
    if (hop_ == Hop::kFastGather && operation_.fast_left == 0) {
      board_.codes_user[static_cast<size_t>(operation_.staging)] = nullptr;
    }
  }
}

std::string HopJob::Describe() const {
  return StrCat(NameOf(hop_), " of ",
                board_.plan.units[static_cast<size_t>(operation_.unit)].spec.name, " in step ",
                operation_.step);
}

void Rearm(const Plan& plan, UnitOperation& operation, int64_t step, uint64_t epoch) {
  const Routes& routes = plan.routes[static_cast<size_t>(operation.unit)];
  operation.input = false;
  operation.step = step;
  operation.epoch = epoch;
  operation.slow_left = operation.fast_left = 0;
  for (const Hop hop : {Hop::kSlowGather, Hop::kFastGather, Hop::kFastReduce, Hop::kSlowReduce}) {
    if (!Uses(plan, operation, hop)) continue;
    (IsSlow(hop) ? operation.slow_left : operation.fast_left) =
        static_cast<int>(routes.of(hop, operation.full).size());
  }
}

UnitOperation& OperationList::Add(Board& board, const UnitOperation& operation, uint64_t seed) {
  UnitOperation& added = operations.emplace_back(operation);
  for (const Hop hop : {Hop::kSlowGather, Hop::kFastGather, Hop::kFastReduce, Hop::kSlowReduce}) {
    if (!Uses(board.plan, operation, hop)) continue;
    const size_t chunks =
        board.plan.routes[static_cast<size_t>(operation.unit)].of(hop, operation.full).size();
    for (size_t c = 0; c < chunks; ++c) {
      const uint64_t print = Mix64(
          seed ^ Mix64((static_cast<uint64_t>(operation.unit) << 32) | (Index(hop) << 16) | c));
      (IsSlow(hop) ? slow_jobs : fast_jobs)
          .emplace_back(board, added, hop, static_cast<int>(c), print);
    }
  }
  return added;
}

void OperationList::Link() {
  for (std::deque<HopJob>* jobs : {&slow_jobs, &fast_jobs}) {
    for (size_t i = 0; i + 1 < jobs->size(); ++i) (*jobs)[i].set_next((*jobs)[i + 1].fingerprint());
  }
}

}  // namespace thinwire::zero
