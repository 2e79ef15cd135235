#include "apps/failure.h"

#include <iostream>
#include <new>

#include "thinwire/base/error.h"

namespace thinwire::app {

int Fail(const std::string& message, int code) {
  std::string line = message;
  for (char& c : line) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';  // names may come from a file
  }
  std::cerr << "thinwire: " << line << '\n';
  return code;
}

int Guarded(int (*run)(int, char**), int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const UsageError& error) {
    return Fail(error.what(), kBadInput);
  } catch (const IoError& error) {
    return Fail(error.what(), kBadInput);
  } catch (const std::bad_alloc&) {
    return Fail("out of memory", kFailed);
  } catch (const std::exception& error) {
    return Fail(error.what(), kFailed);
  }
}

}  // namespace thinwire::app
