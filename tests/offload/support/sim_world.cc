#include "tests/offload/support/sim_world.h"

namespace tidemill::test {

void SimWorld::add(SimActor& actor) {
  constexpr std::uint64_t kSpeeds[] = {1000, 1000, 100, 1};
  actors_.push_back({&actor, kSpeeds[pick(0, 3)]});
}

void SimWorld::remove(SimActor& actor) {
  std::erase_if(actors_, [&](const Entry& entry) { return entry.actor == &actor; });
}

std::uint64_t SimWorld::pick(std::uint64_t low, std::uint64_t high) {
  // Not std::uniform_int_distribution, which differs between standard libraries.
  return low + random_() % (high - low + 1);
}

bool SimWorld::chance(double probability) {
  return static_cast<double>(random_() >> 11) * 0x1p-53 < probability;
}

bool SimWorld::step() {
  std::uint64_t total = 0;
  for (const Entry& entry : actors_) total += entry.actor->runnable() ? entry.speed : 0;
  if (total == 0) return false;
  std::uint64_t at = pick(0, total - 1);
  for (const Entry& entry : actors_) {
    if (!entry.actor->runnable()) continue;
    if (at < entry.speed) {
      entry.actor->step();
      return true;
    }
    at -= entry.speed;
  }
  return false;
}

void SimWorld::pass_time() {
  while (chance(0.5) && step()) {
  }
}

void SimWorld::finish() {
  while (step()) {
  }
}

}  // namespace tidemill::test
