// The part of a manifest that every atomic directory has.
#include <cerrno>

#include "thinwire/base/error.h"
#include "thinwire/io/atomic_directory.h"

namespace thinwire::io {

using Json = nlohmann::json;

int64_t IntegerIn(const Json& object, const char* key, const std::string& what) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  if (found == object.end() || !found->is_number_unsigned() ||
      found->get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) {
    throw UsageError(StrCat(what, ": \"", key, "\" must be an integer >= 0, found ",
                            found == object.end() ? "nothing" : found->dump().substr(0, 40)));
  }
  return found->get<int64_t>();
}

Json ReadManifest(FileSystem& fs, const std::string& directory) {
  const std::string path = directory + "/" + AtomicDirectory::kManifest;
  const int file = fs.Open(path, OpenMode::kRead);
  if (file == -ENOENT || file == -ENOTDIR) {
    throw UsageError(StrCat(directory, ": no ", AtomicDirectory::kManifest,
                            ", so it is not a complete checkpoint"));
  }
  if (file >= 0) fs.Close(file);
  const std::string text = ReadFile(fs, path, AtomicDirectory::kMaxManifestBytes);
  Json manifest = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!manifest.is_object()) throw UsageError(StrCat(path, ": not a JSON object"));
  IntegerIn(manifest, "step", path);
  FilesOf(manifest, directory);
  return manifest;
}

std::vector<FileRecord> FilesOf(const Json& manifest, const std::string& directory) {
  const std::string what = directory + "/" + AtomicDirectory::kManifest;
  const auto list = manifest.find("files");
  if (list == manifest.end() || !list->is_array()) {
    throw UsageError(StrCat(what, ": \"files\" must be a list"));
  }
  std::vector<FileRecord> files;
  for (const Json& entry : *list) {
    const auto name = entry.is_object() ? entry.find("name") : entry.end();
    if (name == entry.end() || !name->is_string()) {
      throw UsageError(StrCat(what, ": an entry of \"files\" has no name"));
    }
    const auto& text = name->get_ref<const std::string&>();
    if (text.empty() || text == "." || text == ".." || text.find('/') != std::string::npos ||
        text.find('\0') != std::string::npos) {
      throw UsageError(StrCat(what, ": a plain file name expected, found ", name->dump()));
    }
    const int64_t crc = IntegerIn(entry, "crc32c", what);
    if (crc > UINT32_MAX) throw UsageError(StrCat(what, ": crc32c ", crc, " exceeds 32 bits"));
    files.push_back({text, IntegerIn(entry, "bytes", what), static_cast<uint32_t>(crc)});
  }
  return files;
}

}  // namespace thinwire::io
