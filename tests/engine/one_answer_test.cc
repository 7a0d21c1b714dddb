// The bits of an answer depend on the model and the input, and on nothing else.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>

#include "tests/engine/support/run.h"

namespace tidemill::engine::testing {
namespace {

// Every setting away from the reference setup, in combinations that meet each value of each.
std::vector<Setup> setups() {
  using io::ReaderEngine;
  std::vector<Setup> out;
  const auto add = [&](auto change) {
    Setup setup;
    change(setup);
    out.push_back(setup);
  };
  for (const unsigned threads : {1U, 2U, 3U}) {
    for (const double share : {0.0, 0.5}) {
      add([&](Setup& s) {
        s.threads = threads;
        s.memory_share = share;
        s.io = (threads + (share > 0 ? 1 : 0)) % 2 == 0 ? ReaderEngine::kUring
                                                        : ReaderEngine::kThreads;
      });
    }
  }
  for (const std::uint32_t prefetch : {0U, 1U, 2U, 7U}) {
    add([&](Setup& s) {
      s.prefetch = prefetch;
      s.memory_share = 0.2;
      s.threads = 2;
    });
  }
  for (const std::uint64_t chunk : {1U, 2U, 5U, 16U, 39U}) {
    add([&](Setup& s) {
      s.chunk = chunk;
      s.memory_share = 0.3;
      s.block_bytes = 4096;
      s.io = chunk % 2 == 0 ? ReaderEngine::kUring : ReaderEngine::kThreads;
    });
  }
  add([](Setup& s) { s.chunk = 3; });
  for (const std::uint64_t piece : {4096U, 20'000U, 65'536U}) {
    add([&](Setup& s) {
      s.piece_bytes = piece;
      s.memory_share = 0.6;
    });
  }
  return out;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

std::vector<std::uint32_t> some_tokens(std::uint64_t vocab, std::size_t count, std::uint32_t seed) {
  std::vector<std::uint32_t> out;
  for (std::size_t i = 0; i < count; ++i) {
    seed = seed * 1664525U + 1013904223U;
    out.push_back(static_cast<std::uint32_t>((seed >> 8) % vocab));
  }
  return out;
}

const std::vector<std::string> kModels = {"gpt2_b",  "gpt2_c",        "bloom_a",
                                          "bloom_b", "llama3_a",      "qwen2_b",
                                          "qwen3_a", "llama_dynamic", "mistral_a"};

TEST_CASE("logits are the same bits in every setup, at every call") {
  for (const std::string& name : kModels) {
    CAPTURE(name);
    const Model model = Model::open(fixture(name));
    const auto tokens = some_tokens(model.spec.vocab, 40, 1);
    const auto reference = logits_of(model, tokens, Setup{});
    for (const Setup& setup : setups()) {
      CAPTURE(setup.describe());
      CHECK(same_bits(reference, logits_of(model, tokens, setup)));
    }
  }
}

TEST_CASE("a sequence gives the same tokens alone or in company, whatever the order") {
  for (const std::string& name : kModels) {
    CAPTURE(name);
    const Model model = Model::open(fixture(name));
    std::vector<GenerationRequest> requests;
    for (std::uint32_t i = 0; i < 6; ++i) {
      auto request = greedy(some_tokens(model.spec.vocab, 1 + 3 * i, 77 + i), 5 + 2 * i);
      if (i % 2 == 1) {
        request.sampling.do_sample = true;
        request.sampling.temperature = 1.5f;
        request.sampling.seed = i;
      }
      requests.push_back(request);
    }
    std::vector<std::vector<std::uint32_t>> alone;
    for (const auto& request : requests) {
      alone.push_back(generate_with(model, {request}, Setup{})[0].tokens);
      CHECK(alone.back().size() == request.max_new_tokens);
    }
    std::vector<std::uint64_t> lengths;
    for (const auto& request : requests) lengths.push_back(positions_needed(model, request));
    std::vector<std::size_t> order = {0, 1, 2, 3, 4, 5};
    for (const std::uint64_t chunk : {1U, 4U, 64U}) {
      for (const bool smallest : {false, true}) {
        std::rotate(order.begin(), order.begin() + 1, order.end());
        std::vector<GenerationRequest> shuffled;
        for (const std::size_t i : order) shuffled.push_back(requests[i]);
        Setup setup;
        setup.chunk = chunk;
        if (smallest) setup.memory_share = 0.05;
        setup.threads = 2;
        CAPTURE(setup.describe());
        const auto together = generate_with(model, shuffled, setup);
        for (std::size_t i = 0; i < order.size(); ++i) {
          CHECK(together[i].tokens == alone[order[i]]);
        }
      }
    }
  }
}

TEST_CASE("two equal calls in one session give equal text, cold and warm") {
  const Model model = Model::open(fixture("gpt2_b"));
  auto request = greedy(some_tokens(model.spec.vocab, 9, 5), 20);
  auto sampled = request;
  sampled.sampling.do_sample = true;
  sampled.sampling.seed = 1234;
  Setup setup;
  setup.memory_share = 0.2;
  setup.threads = 2;
  with_session(model, {29, 29}, false, setup, [&](Session& session) {
    const std::vector<GenerationRequest> both = {request, sampled};
    const auto first = generate(session, both, {});
    const auto second = generate(session, both, {});
    CHECK(first[0].tokens == second[0].tokens);
    CHECK(first[1].tokens == second[1].tokens);
    CHECK(first[0].tokens != first[1].tokens);
  });
}

TEST_CASE("one-token prompts do not see an earlier request's cache") {
  const Model model = Model::open(fixture("llama2_a"));
  const auto expected = generate_with(model, {greedy({5}, 8)}, Setup{})[0].tokens;
  with_session(model, {60}, false, Setup{}, [&](Session& session) {
    const std::vector<GenerationRequest> longer = {
        greedy(some_tokens(model.spec.vocab, 40, 3), 20)};
    const std::vector<GenerationRequest> shorter = {greedy({5}, 8)};
    generate(session, longer, {});
    CHECK(generate(session, shorter, {})[0].tokens == expected);
  });
}

}  // namespace
}  // namespace tidemill::engine::testing
