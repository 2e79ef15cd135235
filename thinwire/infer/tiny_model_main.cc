// For tests in other languages: writes a tiny model with random weights.
//   infer_tiny_model FILE LAYERS HIDDEN CONTEXT
#include <string>

#include "thinwire/infer/tiny_model.h"

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  thinwire::infer::TinyShape shape;
  shape.layers = std::stol(argv[2]);
  shape.hidden = std::stol(argv[3]);
  shape.feed_forward = 2 * shape.hidden;
  shape.context = std::stol(argv[4]);
  thinwire::infer::TinyModel(shape).Write(argv[1]);
}
