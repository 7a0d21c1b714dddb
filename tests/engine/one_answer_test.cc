// The bits of an answer depend on the model and the input, and on nothing else.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>

#include "tests/engine/support/run.h"

namespace tidemill::engine::testing {
namespace {

// Every setting away from the reference setup, one at a time and in a few combinations.
std::vector<Setup> setups() {
  std::vector<Setup> out;
  for (const unsigned threads : {1U, 2U, 3U}) {
    for (const bool smallest : {false, true}) {
      for (const auto io : {io::ReaderEngine::kThreads, io::ReaderEngine::kUring}) {
        Setup setup;
        setup.threads = threads;
        setup.smallest_memory = smallest;
        setup.io = io;
        out.push_back(setup);
      }
    }
  }
  for (const std::uint32_t prefetch : {0U, 1U, 2U, 7U}) {
    Setup setup;
    setup.smallest_memory = prefetch % 2 == 1;
    setup.memory_bytes = 400'000;
    setup.prefetch = prefetch;
    setup.threads = 2;
    out.push_back(setup);
  }
  for (const std::uint64_t chunk : {1U, 2U, 5U, 16U, 39U}) {
    Setup setup;
    setup.chunk = chunk;
    out.push_back(setup);
    setup.threads = 3;
    setup.block_bytes = 4096;
    setup.memory_bytes = 350'000;
    out.push_back(setup);
  }
  for (const std::uint64_t memory : {250'000U, 300'000U, 500'000U, 900'000U}) {
    Setup setup;
    setup.memory_bytes = memory;
    setup.piece_bytes = memory / 16;
    out.push_back(setup);
  }
  return out;
}

// The setup, with its memory raised to the smallest that works where it is below.
Setup feasible(const Model& model, Setup setup, const std::vector<std::uint64_t>& lengths,
               bool all_logits) {
  const auto device = kernels::make_cpu_device({.threads = setup.threads});
  const auto workload = make_workload(model, *device, lengths, setup.chunk, all_logits);
  setup.memory_bytes = std::max(setup.memory_bytes, smallest_memory(model, workload, *device));
  return setup;
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
    for (const Setup& wanted : setups()) {
      const Setup setup = feasible(model, wanted, {tokens.size()}, true);
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
        setup.smallest_memory = smallest;
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
  setup.memory_bytes = 300'000;
  setup.threads = 2;
  const std::vector<std::uint64_t> lengths = {29, 29};
  with_session(model, lengths, false, feasible(model, setup, lengths, false),
               [&](Session& session) {
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
