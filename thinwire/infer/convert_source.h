// A model as Hugging Face's libraries have it: a configuration, tensors by name, and the files of a
// tokenizer.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "thinwire/infer/convert_json.h"
#include "thinwire/io/safetensors.h"

namespace thinwire::infer {

class ModelSource {
 public:
  virtual ~ModelSource() = default;
  ModelSource(const ModelSource&) = delete;
  ModelSource& operator=(const ModelSource&) = delete;

  // What messages call it.
  const std::string& name() const { return name_; }
  const JsonView& config() const { return *config_view_; }

  // Of the directory with its files.
  std::string PathOf(const std::string& file) const { return directory_ + "/" + file; }
  bool Has(const std::string& file) const;
  std::string ReadText(const std::string& file) const;
  // Null when there is none.
  std::unique_ptr<Json> FindJson(const std::string& file) const;

  virtual std::vector<std::string> tensors() const = 0;  // names
  virtual const io::TensorInfo* FindTensor(const std::string& tensor) const = 0;
  // What a tensor is in, for messages.
  virtual const std::string& FileOf(const std::string& tensor) const = 0;

 protected:
  // An empty directory: none.
  ModelSource(io::FileSystem& fs, std::string name, std::string directory);
  void SetConfig(std::string where, Json config);
  io::FileSystem& fs() const { return fs_; }

 private:
  io::FileSystem& fs_;
  const std::string name_, directory_;
  std::vector<std::string> files_;  // of the directory, sorted
  Json config_;
  std::unique_ptr<JsonView> config_view_;
};

// A directory with config.json and the tensors in one or several safetensors files.
class ModelDirectory : public ModelSource {
 public:
  // Reads config.json and the headers of the safetensors files. Throws UsageError naming the file
  // when something is missing or malformed: weights in another form, a tensor in two files, an
  // index that names a tensor or file that is not there.
  ModelDirectory(io::FileSystem& fs, const std::string& path);

  std::vector<std::string> tensors() const override;  // sorted
  const io::TensorInfo* FindTensor(const std::string& tensor) const override;
  const std::string& FileOf(const std::string& tensor) const override;
  // All of its bytes.
  std::vector<std::byte> Read(const std::string& tensor) const;

 private:
  struct Place {
    const io::SafetensorsFile* file;
    const io::TensorInfo* info;
  };

  void Open(const std::string& name);
  void OpenIndexed(const std::string& index);

  std::vector<std::unique_ptr<io::SafetensorsFile>> files_;
  std::map<std::string, Place> places_;
};

struct ModelDescription {
  std::string name = {};       // what messages call it
  std::string config = {};     // as config.json
  std::string directory = {};  // with the tokenizer's files; empty: none
  struct Tensor {
    std::string name;
    std::vector<int64_t> shape;
  };
  std::vector<Tensor> tensors = {};  // all fp32
};

// A model whose tensors somebody else has.
class DescribedModel : public ModelSource {
 public:
  // Throws UsageError where the config is no JSON object or a name is there twice.
  DescribedModel(io::FileSystem& fs, ModelDescription description);

  std::vector<std::string> tensors() const override { return order_; }  // as described
  const io::TensorInfo* FindTensor(const std::string& tensor) const override;
  const std::string& FileOf(const std::string&) const override { return name(); }

 private:
  std::vector<std::string> order_;
  std::map<std::string, io::TensorInfo> tensors_;
};

}  // namespace thinwire::infer
