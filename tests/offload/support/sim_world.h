// A deterministic world: reads and streams whose progress is chosen by a seed.
//
// Fault model: a read delivers its bytes in any order, in parts, at any later time, and its
// destination holds garbage until then; a stream executes its queue as late as it likes, streams
// interleave in any way that events allow. Nothing happens between calls by itself: each call of
// the code under test into the world lets a random number of random steps happen first, so a seed
// replays exactly, in one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace tidemill::test {

/// Something that makes progress in the world.
class SimActor {
 public:
  virtual ~SimActor() = default;
  /// True if step() would do something.
  virtual bool runnable() const = 0;
  virtual void step() = 0;
};

/// Fences that a test can take away. Each must be missed by some seed.
struct SimMutations {
  bool filled_too_early = false;      ///< reads say that they are done before the bytes are there
  bool release_not_recorded = false;  ///< Stream::record does nothing
  bool release_not_awaited = false;   ///< events are always complete
  bool streams_not_ordered = false;   ///< Stream::wait does nothing
};

class SimWorld {
 public:
  explicit SimWorld(std::uint64_t seed, SimMutations mutations_in = {})
      : mutations(mutations_in), random_(seed) {}
  SimWorld(const SimWorld&) = delete;
  SimWorld& operator=(const SimWorld&) = delete;

  /// Its speed is chosen by the seed: some actors lag far behind the others.
  void add(SimActor& actor);
  void remove(SimActor& actor);

  /// Uniform in [low, high].
  std::uint64_t pick(std::uint64_t low, std::uint64_t high);
  bool chance(double probability);

  /// One step of a random runnable actor; false if there is none.
  bool step();
  /// Up to a few steps, often none.
  void pass_time();
  /// Steps until nothing is left to do.
  void finish();

  const SimMutations mutations;

 private:
  struct Entry {
    SimActor* actor = nullptr;
    std::uint64_t speed = 1;
  };
  std::mt19937_64 random_;
  std::vector<Entry> actors_;
};

}  // namespace tidemill::test
