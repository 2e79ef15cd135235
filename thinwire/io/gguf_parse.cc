#include "thinwire/io/gguf_parse.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

#include "thinwire/base/checked.h"
#include "thinwire/base/error.h"

namespace thinwire::io {
namespace {

static_assert(std::endian::native == std::endian::little, "values are taken as they lie");

constexpr uint64_t kLengthBytes = sizeof(uint64_t);
// The least that one takes: a name of one byte, a type and a value; a name, rank, type and offset.
constexpr uint64_t kLeastEntry = kLengthBytes + 1 + 4 + 1;
constexpr uint64_t kLeastTensor = kLengthBytes + 1 + 4 + 4 + 8;

// Reads on from byte to byte and knows what it is about, for messages.
class Cursor {
 public:
  Cursor(std::span<const std::byte> bytes, const std::string& path) : bytes_(bytes), path_(path) {}

  uint64_t at() const { return at_; }
  uint64_t remaining() const { return bytes_.size() - at_; }

  // What comes now: the header (no kind), or the index-th key or tensor, whose name is not yet
  // read.
  void Begin(const char* kind, uint64_t index, uint64_t count) {
    kind_ = kind;
    index_ = index;
    count_ = count;
    name_ = {};
  }
  void Named(std::string_view name) { name_ = name; }

  template <typename T>
  T Read(const char* what) {
    if (remaining() < sizeof(T)) Fail("the file ends before ", what);
    T value;
    std::memcpy(&value, bytes_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return value;
  }

  std::span<const std::byte> Take(uint64_t bytes, const char* what) {
    if (bytes > remaining()) {
      Fail(what, " of ", bytes, " bytes at byte ", at_, ", where ", remaining(), " remain");
    }
    const auto taken = bytes_.subspan(at_, bytes);
    at_ += bytes;
    return taken;
  }

  std::string_view TakeString(const char* what) {
    const auto bytes = Take(Read<uint64_t>(what), what);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  template <typename... Parts>
  [[noreturn]] void Fail(const Parts&... parts) const {
    std::string about;
    if (kind_ != nullptr && name_.empty()) {
      about = StrCat(kind_, " ", index_ + 1, " of ", count_, ": ");
    } else if (kind_ != nullptr) {
      about = StrCat(kind_, " ", QuotedName(name_), ": ");
    }
    throw UsageError(StrCat(path_, ": ", about, parts...));
  }

 private:
  std::span<const std::byte> bytes_;
  const std::string& path_;
  uint64_t at_ = 0;
  const char* kind_ = nullptr;
  uint64_t index_ = 0, count_ = 0;
  std::string_view name_;
};

std::string_view ReadName(Cursor& cursor) {
  const std::string_view name = cursor.TakeString("a name");
  if (const char* problem = GgufNameProblem(name)) cursor.Fail(problem);
  cursor.Named(name);
  return name;
}

// A count that the header announces, of things that take at least `least` bytes each.
uint64_t ReadCount(Cursor& cursor, const char* what, uint64_t least, uint64_t most) {
  const uint64_t count = cursor.Read<uint64_t>(what);
  if (count > cursor.remaining() / least) {
    cursor.Fail("announces ", count, " ", what, ", for which the ", cursor.remaining(),
                " bytes that follow are too few");
  }
  if (count > most) cursor.Fail("announces ", count, " ", what, ", at most ", most, " are read");
  return count;
}

uint32_t ReadVersion(Cursor& cursor) {
  if (cursor.remaining() == 0) cursor.Fail("the file is empty, a GGUF file expected");
  if (cursor.remaining() < kGgufMagic.size()) cursor.Fail("too short for a GGUF file");
  const auto magic = cursor.Take(kGgufMagic.size(), "magic");
  const std::string_view found(reinterpret_cast<const char*>(magic.data()), magic.size());
  if (found == "FUGG") cursor.Fail("a GGUF file of the other byte order: convert it again");
  if (found != kGgufMagic) cursor.Fail("not a GGUF file: it does not begin with \"GGUF\"");
  const uint32_t version = cursor.Read<uint32_t>("the version");
  if ((version & 0xffff) == 0 && version != 0) {
    cursor.Fail("a big-endian GGUF file (version ", version >> 24,
                " the other way round): convert it to little-endian");
  }
  if (version != 2 && version != kGgufVersion) {
    cursor.Fail("GGUF version ", version, ", versions 2 and 3 are read");
  }
  return version;
}

GgufType ReadType(Cursor& cursor) {
  const uint32_t number = cursor.Read<uint32_t>("the type of a value");
  const auto type = GgufTypeNumbered(number);
  if (!type) cursor.Fail("unknown type ", number, " of a value");
  return *type;
}

void CheckBools(const Cursor& cursor, std::span<const std::byte> value) {
  for (const std::byte byte : value) {
    if (byte > std::byte{1}) {
      cursor.Fail("a bool is 0 or 1, found ", std::to_integer<int>(byte));
    }
  }
}

void ReadArray(Cursor& cursor, GgufEntry& entry) {
  entry.element = ReadType(cursor);
  if (entry.element == GgufType::kArray) cursor.Fail("an array of arrays, which is not read");
  const bool strings = entry.element == GgufType::kString;
  const uint64_t least = strings ? kLengthBytes : static_cast<uint64_t>(SizeOf(entry.element));
  const uint64_t count = cursor.Read<uint64_t>("the length of an array");
  if (count > cursor.remaining() / least) {
    cursor.Fail("an array of ", count, " ", NameOf(entry.element), " at byte ", cursor.at(),
                ", where ", cursor.remaining(), " bytes remain");
  }
  entry.count = static_cast<int64_t>(count);
  if (!strings) {
    entry.value = cursor.Take(count * least, "an array");
    return;
  }
  Cursor walk = cursor;
  for (uint64_t i = 0; i < count; ++i) walk.Take(walk.Read<uint64_t>("a string"), "a string");
  entry.value = cursor.Take(walk.at() - cursor.at(), "an array");
}

GgufEntry ReadEntry(Cursor& cursor) {
  GgufEntry entry;
  entry.key = ReadName(cursor);
  entry.type = entry.element = ReadType(cursor);
  if (entry.type == GgufType::kArray) {
    ReadArray(cursor, entry);
  } else if (entry.type == GgufType::kString) {
    entry.value = std::as_bytes(std::span(cursor.TakeString("a string")));
  } else {
    entry.value = cursor.Take(static_cast<uint64_t>(SizeOf(entry.type)), "a value");
  }
  if (entry.element == GgufType::kBool) CheckBools(cursor, entry.value);
  return entry;
}

// A tensor whose place is not yet known to lie in the file.
struct Placed {
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

int64_t BytesOf(const Cursor& cursor, const GgufTensor& tensor) {
  if (tensor.columns() % BlockElements(tensor.type) != 0) {
    cursor.Fail("rows of ", tensor.columns(), " ", NameOf(tensor.type),
                ", which come in blocks of ", BlockElements(tensor.type));
  }
  try {
    return WeightBytes(tensor.type, CheckedNumel(tensor.shape(), "its shape"), "its shape");
  } catch (const UsageError& error) {
    cursor.Fail(error.what());
  }
}

GgufTensor ReadTensor(Cursor& cursor, Placed& placed) {
  GgufTensor tensor;
  tensor.name = ReadName(cursor);
  const uint32_t rank = cursor.Read<uint32_t>("the number of extents");
  if (rank > kGgufMaxRank) {
    cursor.Fail(rank, " extents, at most ", kGgufMaxRank, " are read");
  }
  tensor.rank = rank;
  for (size_t i = tensor.rank; i-- > 0;) {
    tensor.extents[i] = cursor.Read<int64_t>("an extent");
    if (tensor.extents[i] < 1) cursor.Fail("an extent of ", tensor.extents[i]);
  }
  const uint32_t number = cursor.Read<uint32_t>("the type of a tensor");
  const auto type = WeightTypeNumbered(number);
  if (!type) cursor.Fail(UnreadWeightType(number));
  tensor.type = *type;
  placed.offset = cursor.Read<uint64_t>("the offset of a tensor");
  placed.bytes = static_cast<uint64_t>(BytesOf(cursor, tensor));
  return tensor;
}

int64_t AlignmentOf(Cursor& cursor, const std::vector<GgufEntry>& entries) {
  const auto found = std::ranges::find(entries, kGgufAlignmentKey, &GgufEntry::key);
  if (found == entries.end()) return kGgufAlignment;
  cursor.Begin("key", 0, 0);
  cursor.Named(kGgufAlignmentKey);
  if (found->type != GgufType::kU32) cursor.Fail("u32 expected, found ", Describe(*found));
  uint32_t alignment = 0;
  std::memcpy(&alignment, found->value.data(), sizeof alignment);
  if (!std::has_single_bit(alignment) || alignment < 8) {
    cursor.Fail("a power of two from 8 on expected, found ", alignment);
  }
  return alignment;
}

// Places in order of name; fails on one that is there twice.
template <typename T>
std::vector<uint32_t> SortedBy(std::string_view T::*name, const std::vector<T>& all,
                               const char* kind, Cursor& cursor) {
  std::vector<uint32_t> order(all.size());
  std::iota(order.begin(), order.end(), 0u);
  const auto name_of = [&](uint32_t i) { return all[i].*name; };
  std::ranges::sort(order, {}, name_of);
  const auto twice = std::ranges::adjacent_find(order, {}, name_of);
  if (twice != order.end()) {
    cursor.Begin(kind, *twice, all.size());
    cursor.Named(name_of(*twice));
    cursor.Fail("is there twice");
  }
  return order;
}

// Gives each tensor its data.
void Place(std::span<const std::byte> bytes, const std::vector<Placed>& places, bool data_is_here,
           GgufContent& content, Cursor& cursor) {
  const uint64_t alignment = static_cast<uint64_t>(content.alignment);
  const uint64_t begin = (cursor.at() + alignment - 1) / alignment * alignment;
  content.data_begin = static_cast<int64_t>(begin);
  const uint64_t room = begin < bytes.size() ? bytes.size() - begin : 0;
  std::vector<uint32_t> order(places.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::sort(order, {}, [&](uint32_t i) { return places[i].offset; });
  uint64_t taken = 0;  // by the tensors before, in order of their offsets
  for (size_t i = 0; i < order.size(); ++i) {
    const Placed& place = places[order[i]];
    GgufTensor& tensor = content.tensors[order[i]];
    cursor.Begin("tensor", order[i], order.size());
    cursor.Named(tensor.name);
    if (place.offset % alignment != 0) {
      cursor.Fail("offset ", place.offset, " is no multiple of the alignment ", alignment);
    }
    if (data_is_here && (place.bytes > room || place.offset > room - place.bytes)) {
      cursor.Fail(place.bytes, " bytes at ", place.offset, " of the data, of which the file has ",
                  room, "; it is cut off or malformed");
    }
    if (place.offset < taken) {
      cursor.Fail("overlaps with tensor ", QuotedName(content.tensors[order[i - 1]].name));
    }
    taken = place.offset + place.bytes;
    if (data_is_here) tensor.data = bytes.subspan(begin + place.offset, place.bytes);
  }
}

}  // namespace

GgufContent ParseGguf(std::span<const std::byte> bytes, const std::string& path,
                      bool data_is_here) {
  Cursor cursor(bytes, path);
  GgufContent content;
  content.version = ReadVersion(cursor);
  const uint64_t tensors = ReadCount(cursor, "tensors", kLeastTensor, kGgufMaxTensors);
  const uint64_t keys = ReadCount(cursor, "keys", kLeastEntry, kGgufMaxKeys);
  for (uint64_t i = 0; i < keys; ++i) {
    cursor.Begin("key", i, keys);
    content.entries.push_back(ReadEntry(cursor));
  }
  content.entries_by_key = SortedBy(&GgufEntry::key, content.entries, "key", cursor);
  content.alignment = AlignmentOf(cursor, content.entries);

  std::vector<Placed> places;
  for (uint64_t i = 0; i < tensors; ++i) {
    cursor.Begin("tensor", i, tensors);
    content.tensors.push_back(ReadTensor(cursor, places.emplace_back()));
  }
  content.tensors_by_name = SortedBy(&GgufTensor::name, content.tensors, "tensor", cursor);
  Place(bytes, places, data_is_here, content, cursor);
  return content;
}

}  // namespace thinwire::io
