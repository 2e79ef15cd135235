#include "thinwire/io/fault_file_system.h"

#include <algorithm>

namespace thinwire::io {

bool FaultFileSystem::Fails(FileOp op) {
  if (fault_.op != FileOp::kAny && fault_.op != op) return false;
  const int64_t index = seen_.fetch_add(1);
  return fault_.forever ? index >= fault_.nth : index == fault_.nth;
}

int FaultFileSystem::Open(const std::string& path, OpenMode mode) {
  return Fails(FileOp::kOpen) ? -fault_.error : base_.Open(path, mode);
}

int FaultFileSystem::Close(int file) {
  const bool fails = Fails(FileOp::kClose);
  const int result = base_.Close(file);
  return fails ? -fault_.error : result;
}

int64_t FaultFileSystem::Read(int file, int64_t offset, std::span<std::byte> to) {
  if (Fails(FileOp::kRead)) return -fault_.error;
  return base_.Read(file, offset,
                    to.first(std::min(to.size(), static_cast<size_t>(fault_.max_transfer))));
}

int64_t FaultFileSystem::Write(int file, int64_t offset, std::span<const std::byte> from) {
  if (Fails(FileOp::kWrite)) return -fault_.error;
  return base_.Write(file, offset,
                     from.first(std::min(from.size(), static_cast<size_t>(fault_.max_transfer))));
}

int FaultFileSystem::Sync(int file) {
  return Fails(FileOp::kSync) ? -fault_.error : base_.Sync(file);
}

int64_t FaultFileSystem::Size(int file) {
  return Fails(FileOp::kSize) ? -fault_.error : base_.Size(file);
}

int FaultFileSystem::Rename(const std::string& from, const std::string& to) {
  return Fails(FileOp::kRename) ? -fault_.error : base_.Rename(from, to);
}

int FaultFileSystem::Remove(const std::string& path) {
  return Fails(FileOp::kRemove) ? -fault_.error : base_.Remove(path);
}

int FaultFileSystem::MakeDirectory(const std::string& path) {
  return Fails(FileOp::kMakeDirectory) ? -fault_.error : base_.MakeDirectory(path);
}

int FaultFileSystem::List(const std::string& path, std::vector<std::string>& names) {
  return Fails(FileOp::kList) ? -fault_.error : base_.List(path, names);
}

int64_t FaultFileSystem::FreeBytes(const std::string& path) {
  return Fails(FileOp::kFreeBytes) ? -fault_.error : base_.FreeBytes(path);
}

}  // namespace thinwire::io
