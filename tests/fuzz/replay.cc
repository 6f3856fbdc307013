// Runs a fuzz target on files instead of a fuzzer: what the repository keeps of seeds and finds.
//
//   replay_NOUN FILE-OR-FOLDER...
//
// Files are taken as they are; of those named *.hex each line is an input, as hexadecimal digits with white
// space between them and a comment, from # on, behind. An input that does not pass ends the process with its
// name told before.

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "tests/fuzz/input.h"

namespace ringswitch::fuzz {
namespace {

namespace fs = std::filesystem;

Bytes ReadFile(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return Bytes(std::istreambuf_iterator<char>(file), {});
}

Bytes FromHex(const std::string& line) {
  Bytes bytes;
  std::string digits;
  for (const char c : line.substr(0, line.find('#'))) {
    if (std::isspace(static_cast<unsigned char>(c))) continue;
    digits += c;
    if (digits.size() < 2) continue;
    bytes.push_back(static_cast<uint8_t>(std::stoul(digits, nullptr, 16)));
    digits.clear();
  }
  return bytes;
}

void RunOne(const Bytes& bytes) {
  // Exactly as long as the input, so that AddressSanitizer sees a read past its end.
  const std::unique_ptr<uint8_t[]> input(new uint8_t[bytes.size()]);
  std::copy(bytes.begin(), bytes.end(), input.get());
  LLVMFuzzerTestOneInput(input.get(), bytes.size());
}

// How many inputs the file has.
size_t Run(const fs::path& path) {
  if (path.extension() != ".hex") {
    std::fprintf(stderr, "%s\n", path.c_str());
    RunOne(ReadFile(path));
    return 1;
  }
  size_t inputs = 0;
  std::ifstream file(path);
  std::string line;
  for (size_t number = 1; std::getline(file, line); ++number) {
    const Bytes bytes = FromHex(line);
    if (bytes.empty()) continue;
    std::fprintf(stderr, "%s:%zu\n", path.c_str(), number);
    RunOne(bytes);
    ++inputs;
  }
  return inputs;
}

int RunAll(int argc, char** argv) {
  std::vector<fs::path> paths;
  for (int i = 1; i < argc; ++i) {
    if (!fs::is_directory(argv[i])) {
      paths.emplace_back(argv[i]);
      continue;
    }
    for (const auto& entry : fs::directory_iterator(argv[i])) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  size_t inputs = 0;
  for (const fs::path& path : paths) {
    if (!fs::is_regular_file(path)) {
      std::fprintf(stderr, "replay: there is no file %s\n", path.c_str());
      return 1;
    }
    inputs += Run(path);
  }
  std::printf("%zu inputs\n", inputs);
  return inputs == 0 ? 1 : 0;
}

}  // namespace
}  // namespace ringswitch::fuzz

int main(int argc, char** argv) {
  return ringswitch::fuzz::RunAll(argc, argv);
}
