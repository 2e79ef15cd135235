#include "thinwire/torch/borrowed_parameter.h"

#include <utility>

#include "thinwire/base/error.h"

namespace thinwire::adapter {

BorrowedParameter::BorrowedParameter(at::Tensor parameter, const std::string& name,
                                     at::ScalarType type)
    : parameter_(std::move(parameter)),
      name_(name),
      shape_(parameter_.sizes().vec()),
      storage_(c10::Storage::use_byte_size_t(),
               static_cast<size_t>(parameter_.numel()) * c10::elementSize(type),
               at::DataPtr(nullptr, at::kCPU), /*allocator=*/nullptr, /*resizable=*/false) {
  auto view = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(storage_),
                                                       c10::DispatchKeySet(c10::DispatchKey::CPU),
                                                       c10::scalarTypeToTypeMeta(type));
  view.unsafeGetTensorImpl()->set_sizes_contiguous(shape_);
  parameter_.set_data(view);
  Release();
}

void BorrowedParameter::Point(std::byte* data) {
  if (lent_.defined()) return;
  c10::StorageImpl& storage = *storage_.unsafeGetStorageImpl();
  storage.clear_data_ptr_access_error_msg_();
  storage.set_data_ptr_noswap(at::DataPtr(data, at::kCPU));
}

void BorrowedParameter::Release() {
  if (lent_.defined()) return;
  c10::StorageImpl& storage = *storage_.unsafeGetStorageImpl();
  storage.set_data_ptr_noswap(at::DataPtr(nullptr, at::kCPU));
  storage.release_data_and_set_meta_custom_data_ptr_error_msg_(
      StrCat("parameter ", name_,
             " has no values here: thinwire keeps it sharded over the ranks and gathers it only "
             "while the module that it belongs to computes. Read or edit it inside "
             "thinwire.full_params(...); for backward, forward has to return its results in "
             "tensors, lists, tuples, dictionaries or dataclasses"));
}

void BorrowedParameter::Lend(const at::Tensor& values) {
  THINWIRE_CHECK(values.is_contiguous() && values.scalar_type() == parameter_.scalar_type() &&
                     values.numel() == parameter_.numel(),
                 name_);
  TakeBack();
  Point(static_cast<std::byte*>(values.data_ptr()));
  lent_ = values;
}

void BorrowedParameter::TakeBack() {
  lent_.reset();
  Release();
}

void BorrowedParameter::BumpVersion() { parameter_.unsafeGetTensorImpl()->bump_version(); }

}  // namespace thinwire::adapter
