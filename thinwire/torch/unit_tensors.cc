#include "thinwire/torch/unit_tensors.h"

#include "thinwire/torch/dtype.h"

namespace thinwire::adapter {

UnitTensors::UnitTensors(const zero::UnitLayout& unit)
    : storage_(c10::Storage::use_byte_size_t(), static_cast<size_t>(unit.flat_bytes()),
               at::DataPtr(nullptr, at::kCPU),
               /*allocator=*/nullptr, /*resizable=*/false) {
  const auto type = c10::scalarTypeToTypeMeta(ScalarTypeOf(unit.compute));
  for (size_t p = 0; p < unit.places.size(); ++p) {
    auto tensor = at::detail::make_tensor<c10::TensorImpl>(
        c10::Storage(storage_), c10::DispatchKeySet(c10::DispatchKey::CPU), type);
    tensor.unsafeGetTensorImpl()->set_storage_offset(unit.places[p].offset);
    tensor.unsafeGetTensorImpl()->set_sizes_contiguous(unit.spec.parameters[p].shape);
    tensors_.push_back(std::move(tensor));
  }
}

void UnitTensors::Point(std::byte* data) {
  storage_.unsafeGetStorageImpl()->set_data_ptr_noswap(at::DataPtr(data, at::kCPU));
}

void UnitTensors::BumpVersions() {
  for (const at::Tensor& tensor : tensors_) tensor.unsafeGetTensorImpl()->bump_version();
}

}  // namespace thinwire::adapter
