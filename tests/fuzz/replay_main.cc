// Runs a fuzz target over the files of the folders that are named, and over a few fixed inputs.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

// libFuzzer's name for what a target defines.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

void run(const std::string& input) {
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): bytes are what the target takes.
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
}

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

int main(int count, char** arguments) {
  std::size_t inputs = 0;
  for (const std::string& input :
       {std::string(), std::string("{}"), std::string(64, '\0'), std::string(64, '\xff'),
        std::string(4096, '['), std::string("\x08\0\0\0\0\0\0\0{}      ", 16)}) {
    run(input);
    ++inputs;
  }
  for (int i = 1; i < count; ++i) {
    if (!std::filesystem::is_directory(arguments[i])) continue;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(arguments[i])) {
      if (!entry.is_regular_file()) continue;
      run(read(entry.path()));
      ++inputs;
    }
  }
  std::printf("%zu inputs\n", inputs);
}
