// torch.ops.thinwire: the number formats of messages as pure operators, loaded with the Python
// module.
//
//   quantize(x, format) -> message               all elements of x, in order, as one run of blocks
//   dequantize(message, numel, format, dtype) -> the elements, 1-D
//   dequantize_into(message, format, out)        the same, into all elements of `out`, rounded to
//                                                its dtype
//   dequantize_sum(terms, numel, format) ->      fp32: terms[0] + terms[1] + ..., each addition
//                                                rounded to fp32. A uint8 tensor is a message, any
//                                                other one gives its elements as they are
//
// Elements are fp32, bf16 or fp16; a message is 1-D uint8; formats are the names of
// codec/by_name.h. A wrong argument is a UsageError, a message of another size a PeerError.
#include <ATen/core/Tensor.h>
#include <ATen/core/enum_tag.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <array>
#include <charconv>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/codec/by_name.h"
#include "thinwire/torch/dtype.h"

namespace thinwire::adapter {
namespace {

using CodecPtr = std::shared_ptr<const codec::Codec>;

CodecPtr CodecNamed(std::string_view format) {
  CodecPtr codec = codec::ByName(format, "format");
  if (codec->coder() == nullptr) return codec;
  throw UsageError(StrCat("format = \"", format,
                          "\": entropy-coded messages have no fixed size, as those of an operator "
                          "do: leave out /coded"));
}

DType DTypeOf(at::ScalarType type, std::string_view what) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    if (ScalarTypeOf(dtype) == type) return dtype;
  }
  throw UsageError(StrCat(what, " has the element type ", c10::toString(type),
                          ": expected Float, BFloat16 or Half"));
}

// Codec::EncodedBytes of one run, for a number of elements that may be a symbol.
c10::SymInt MessageBytes(const codec::Codec& codec, const c10::SymInt& numel) {
  const std::string_view name = codec.name();  // one that ByName read, so nothing is malformed here
  const size_t slash = name.find('/');
  if (slash == std::string_view::npos) return numel * (name == "fp32" ? 4 : 2);
  std::string_view code = name.substr(0, slash);
  code.remove_prefix(code.find('+') + 1);  // a rotation, if there is one
  int64_t block = 0;
  std::from_chars(name.data() + slash + 1, name.data() + name.size(), block);
  const c10::SymInt scales = (numel + (block - 1)) / block * 2;
  if (code == "int8") return numel + scales;
  if (code == "int4") return numel - numel / 2 + scales;
  if (code == "int3") return numel / 8 * 3 + (numel % 8 * 3 + 7) / 8 + scales;
  return (numel + 4) / 5 + scales;
}

ConstArray Elements(const at::Tensor& tensor, std::string_view what) {
  return {static_cast<const std::byte*>(tensor.const_data_ptr()),
          DTypeOf(tensor.scalar_type(), what), tensor.numel()};
}

std::span<const std::byte> Bytes(const at::Tensor& message) {
  return {static_cast<const std::byte*>(message.const_data_ptr()),
          static_cast<size_t>(message.numel())};
}

void CheckMessage(const at::Tensor& message) {
  if (message.scalar_type() != at::kByte || message.dim() != 1) {
    throw UsageError(StrCat("message has the element type ", c10::toString(message.scalar_type()),
                            " and ", message.dim(), " dimensions: expected Byte and 1"));
  }
}

void CheckNumel(int64_t numel) {
  if (numel < 0) throw UsageError(StrCat("numel is ", numel, ": expected 0 or more"));
}

at::Tensor EmptyBytes(const at::Tensor& like, const c10::SymInt& bytes) {
  return at::empty_symint({bytes}, like.options().dtype(at::kByte));
}

at::Tensor Quantize(const at::Tensor& x, std::string_view format) {
  const CodecPtr codec = CodecNamed(format);
  const at::Tensor elements = x.contiguous();
  const ConstArray in = Elements(elements, "x");
  const std::array runs = {in.size};
  const at::Tensor message = EmptyBytes(x, codec->EncodedBytes(runs));
  codec->Encode(
      {}, in, runs,
      {static_cast<std::byte*>(message.mutable_data_ptr()), static_cast<size_t>(message.numel())});
  return message;
}

at::Tensor QuantizeMeta(const at::Tensor& x, std::string_view format) {
  DTypeOf(x.scalar_type(), "x");
  return EmptyBytes(x, MessageBytes(*CodecNamed(format), x.sym_numel()));
}

void Decode(const at::Tensor& message, std::string_view format, const at::Tensor& out) {
  CheckMessage(message);
  const at::Tensor bytes = message.contiguous();
  const Array to(static_cast<std::byte*>(out.mutable_data_ptr()),
                 DTypeOf(out.scalar_type(), "the result"), out.numel());
  const std::array runs = {to.size};
  CodecNamed(format)->Decode({}, Bytes(bytes), runs, to);
}

at::Tensor Dequantize(const at::Tensor& message, int64_t numel, std::string_view format,
                      at::ScalarType dtype) {
  CheckNumel(numel);
  DTypeOf(dtype, "the result");
  const at::Tensor out = at::empty({numel}, message.options().dtype(dtype));
  Decode(message, format, out);
  return out;
}

at::Tensor DequantizeMeta(const at::Tensor& message, c10::SymInt numel, std::string_view format,
                          at::ScalarType dtype) {
  CheckMessage(message);
  CodecNamed(format);
  DTypeOf(dtype, "the result");
  return at::empty_symint({std::move(numel)}, message.options().dtype(dtype));
}

void DequantizeInto(const at::Tensor& message, std::string_view format, at::Tensor& out) {
  if (out.is_contiguous()) return Decode(message, format, out);
  const at::Tensor elements = out.contiguous();
  Decode(message, format, elements);
  out.copy_(elements);
}

void DequantizeIntoMeta(const at::Tensor& message, std::string_view format, at::Tensor& out) {
  CheckMessage(message);
  CodecNamed(format);
  DTypeOf(out.scalar_type(), "the result");
}

void CheckTerms(at::TensorList terms) {
  for (const at::Tensor& term : terms) {
    if (term.scalar_type() == at::kByte) {
      CheckMessage(term);
    } else {
      DTypeOf(term.scalar_type(), "a term");
    }
  }
}

at::Tensor DequantizeSum(at::TensorList terms, int64_t numel, std::string_view format) {
  CheckNumel(numel);
  CheckTerms(terms);
  const CodecPtr codec = CodecNamed(format);
  std::vector<at::Tensor> held;
  std::vector<codec::Term> summands;
  for (const at::Tensor& term : terms) {
    held.push_back(term.contiguous());
    if (term.scalar_type() == at::kByte) {
      summands.push_back({.encoded = Bytes(held.back()), .own = {}});
    } else if (term.numel() == numel) {
      summands.push_back({.encoded = {}, .own = Elements(held.back(), "a term")});
    } else {
      throw UsageError(StrCat("a term has ", term.numel(), " elements: expected ", numel));
    }
  }
  const at::Tensor out = at::empty({numel}, terms[0].options().dtype(at::kFloat));
  const std::array runs = {numel};
  codec->DecodeSum({}, summands, runs, /*accumulate=*/false,
                   {static_cast<float*>(out.mutable_data_ptr()), static_cast<size_t>(numel)});
  return out;
}

at::Tensor DequantizeSumMeta(at::TensorList terms, c10::SymInt numel, std::string_view format) {
  CheckTerms(terms);
  CodecNamed(format);
  return at::empty_symint({std::move(numel)}, terms[0].options().dtype(at::kFloat));
}

}  // namespace
}  // namespace thinwire::adapter

TORCH_LIBRARY(thinwire, library) {
  const std::vector<at::Tag> tags = {at::Tag::pt2_compliant_tag};
  library.def("quantize(Tensor x, str format) -> Tensor", tags);
  library.def("dequantize(Tensor message, SymInt numel, str format, ScalarType dtype) -> Tensor",
              tags);
  library.def("dequantize_into(Tensor message, str format, Tensor(a!) out) -> ()", tags);
  library.def("dequantize_sum(Tensor[] terms, SymInt numel, str format) -> Tensor", tags);
}

TORCH_LIBRARY_IMPL(thinwire, CPU, library) {
  library.impl("quantize", thinwire::adapter::Quantize);
  library.impl("dequantize", thinwire::adapter::Dequantize);
  library.impl("dequantize_into", thinwire::adapter::DequantizeInto);
  library.impl("dequantize_sum", thinwire::adapter::DequantizeSum);
}

TORCH_LIBRARY_IMPL(thinwire, Meta, library) {
  library.impl("quantize", thinwire::adapter::QuantizeMeta);
  library.impl("dequantize", thinwire::adapter::DequantizeMeta);
  library.impl("dequantize_into", thinwire::adapter::DequantizeIntoMeta);
  library.impl("dequantize_sum", thinwire::adapter::DequantizeSumMeta);
}
