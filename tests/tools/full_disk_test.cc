// A drive without room: an error that says so, and nothing left behind.
#include <doctest/doctest.h>
#include <sys/mount.h>

#include <filesystem>

#include "tests/support/checkpoint_dir.h"
#include "tests/tools/support/command.h"

namespace tidemill::tools::testing {
namespace {

namespace fs = std::filesystem;

/// A file system of 1 MiB, if we may mount one.
class SmallDisk {
 public:
  SmallDisk() : mounted_(mount("tidemill", path().c_str(), "tmpfs", 0, "size=1m") == 0) {}
  ~SmallDisk() {
    if (mounted_) umount2(path().c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  bool mounted() const { return mounted_; }
  const fs::path& path() const { return directory_.path(); }

 private:
  tidemill::testing::TemporaryDirectory directory_;
  bool mounted_;
};

TEST_CASE("a full drive ends synth and reports with an I/O error and leaves nothing") {
  const SmallDisk disk;
  if (!disk.mounted()) {
    MESSAGE("nothing can be mounted here: skipped");
    return;
  }
  const Outcome synth =
      tidemill({"synth", bundled_model() + "/config.json", disk.path() / "model", "-q"});
  CHECK(synth.status == 4);
  CHECK(synth.err.find("No space left") != std::string::npos);
  // Shards that were complete already go too.
  const Outcome shards = tidemill({"synth", bundled_model() + "/config.json", disk.path() / "model",
                                   "-q", "--max-shard-size", "300KB"});
  CHECK(shards.status == 4);
  CHECK(fs::is_empty(disk.path()));

  std::string tokens;
  for (int i = 1; i <= 200; ++i) tokens += std::to_string(i) + " ";
  const Outcome logits = tidemill(
      {"logits", bundled_model(), "--tokens", tokens, "-q", "-o", disk.path() / "logits.npy"});
  CHECK(logits.status == 4);
  CHECK(logits.err.find("logits.npy") != std::string::npos);
  CHECK(fs::is_empty(disk.path()));
}

}  // namespace
}  // namespace tidemill::tools::testing
