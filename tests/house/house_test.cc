// The house itself: who may include whom, how long a file may be, what must not be left behind.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace fs = std::filesystem;

namespace {

struct Source {
  std::string path;  // relative to the repository
  std::vector<std::string> lines;
};

std::vector<Source> sources(const std::set<std::string>& extensions) {
  const fs::path root = TIDEMILL_SOURCE_DIR;
  std::vector<Source> out;
  for (const char* folder : {"io", "kernels", "offload", "engine", "tools", "tests", "bench"}) {
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      if (!entry.is_regular_file() || !extensions.contains(entry.path().extension().string())) {
        continue;
      }
      Source source{fs::relative(entry.path(), root).string(), {}};
      std::ifstream in(entry.path());
      for (std::string line; std::getline(in, line);) source.lines.push_back(line);
      out.push_back(std::move(source));
    }
  }
  return out;
}

std::string folder_of(const std::string& path) {
  if (path.starts_with("io/base/")) return "io/base";
  return path.substr(0, path.find('/'));
}

TEST_CASE("includes point down only") {
  const std::map<std::string, std::set<std::string>> may_include = {
      {"io/base", {"io/base"}},
      {"io", {"io/base", "io"}},
      {"kernels", {"io/base", "kernels"}},
      {"offload", {"io/base", "io", "kernels", "offload"}},
      {"engine", {"io/base", "io", "kernels", "offload", "engine"}},
      {"tools", {"io/base", "io", "kernels", "offload", "engine", "tools"}},
  };
  std::size_t checked = 0;
  for (const Source& source : sources({".h", ".cc", ".cu", ".cuh"})) {
    const auto allowed = may_include.find(folder_of(source.path));
    if (allowed == may_include.end()) continue;  // tests and benchmarks may see everything
    for (const std::string& line : source.lines) {
      if (!line.starts_with("#include \"")) continue;
      const std::string target = line.substr(10, line.find('"', 10) - 10);
      CAPTURE(source.path);
      CAPTURE(target);
      CHECK(allowed->second.contains(folder_of(target)));
      ++checked;
    }
  }
  CHECK(checked > 100);
}

TEST_CASE("system interfaces stay inside their one file") {
  const std::vector<std::pair<std::string, std::string>> owners = {
      {"<liburing", "io/uring_reader"}, {"<cuda", "kernels/cuda/"}, {"<hwy/", "kernels/cpu/"}};
  for (const Source& source : sources({".h", ".cc"})) {
    if (source.path.starts_with("tests/") || source.path.starts_with("bench/")) continue;
    for (const std::string& line : source.lines) {
      for (const auto& [header, owner] : owners) {
        if (line.find("#include " + header) == std::string::npos) continue;
        CAPTURE(source.path);
        CAPTURE(line);
        CHECK(source.path.starts_with(owner));
      }
    }
  }
}

TEST_CASE("a file is one idea: none is longer than 600 lines") {
  for (const Source& source : sources({".h", ".cc", ".cu", ".cuh"})) {
    CAPTURE(source.path);
    CHECK(source.lines.size() <= 600);
  }
}

TEST_CASE("nothing is left behind") {
  // Spelled in halves, so that this file does not find itself.
  const std::vector<std::string> banned = {std::string("TO") + "DO", std::string("FIX") + "ME",
                                           std::string("XX") + "X", std::string("#if") + " 0"};
  for (const Source& source : sources({".h", ".cc", ".cu", ".cuh", ".py", ".md"})) {
    for (const std::string& line : source.lines) {
      for (const std::string& word : banned) {
        CAPTURE(source.path);
        CAPTURE(line);
        // A longer run of the letter is mkdtemp's pattern.
        const auto at = line.find(word);
        const bool pattern = at != std::string::npos && line.substr(at).starts_with(word + "XX");
        CHECK((at == std::string::npos || pattern));
      }
    }
  }
}

TEST_CASE("every folder tells what it is for") {
  for (const char* folder : {"io", "kernels", "offload", "engine", "tools", "tests", "bench"}) {
    const fs::path readme = fs::path(TIDEMILL_SOURCE_DIR) / folder / "README.md";
    CAPTURE(readme.string());
    REQUIRE(fs::exists(readme));
    std::ifstream in(readme);
    const auto lines = std::count(std::istreambuf_iterator<char>(in), {}, '\n');
    CHECK(lines >= 5);
    CHECK(lines <= 70);  // one screen
  }
}

TEST_CASE("headers guard themselves and say what they are") {
  for (const Source& source : sources({".h"})) {
    if (source.path.ends_with("-inl.h")) continue;  // included once per SIMD target
    CAPTURE(source.path);
    REQUIRE(source.lines.size() > 3);
    CHECK(source.lines[0].starts_with("//"));
    CHECK(std::find(source.lines.begin(), source.lines.end(), "#pragma once") !=
          source.lines.end());
  }
}

}  // namespace
