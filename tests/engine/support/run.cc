#include "tests/engine/support/run.h"

#include <fmt/format.h>

#include <algorithm>

namespace tidemill::engine::testing {

std::string Setup::describe() const {
  return fmt::format(
      "memory {} threads {} io {} block {} prefetch {} piece {} chunk {}",
      memory_share ? fmt::format("smallest + {}", *memory_share) : std::to_string(memory_bytes),
      threads, io == io::ReaderEngine::kUring ? "uring" : "threads", block_bytes,
      prefetch ? std::to_string(*prefetch) : "auto", piece_bytes, chunk);
}

std::string fixture(const std::string& name) {
  return std::string(TIDEMILL_SOURCE_DIR) + "/tests/fixtures/models/" + name;
}

void with_session(const Model& model, const std::vector<std::uint64_t>& lengths, bool all_logits,
                  const Setup& setup, const std::function<void(Session&)>& body) {
  const auto device = kernels::make_cpu_device({.threads = setup.threads});
  Workload workload = make_workload(model, *device, lengths, setup.chunk, all_logits);
  SessionOptions options;
  options.budget.memory_bytes = setup.memory_bytes;
  if (setup.memory_share) {
    double weights = 0;
    for (const io::TensorInfo& tensor : model.checkpoint.tensors()) {
      weights += static_cast<double>(tensor.bytes.length);
    }
    options.budget.memory_bytes = smallest_memory(model, workload, *device) +
                                  static_cast<std::uint64_t>(*setup.memory_share * weights);
  }
  options.budget.piece_bytes = setup.piece_bytes;
  options.threads = setup.threads;
  options.io = setup.io;
  options.reader.block_bytes = setup.block_bytes;
  options.prefetch_pieces = setup.prefetch;
  Session session(model, *device, workload, options);
  body(session);
}

std::vector<float> logits_of(const Model& model, const std::vector<std::uint32_t>& tokens,
                             const Setup& setup, std::vector<std::vector<float>>* hidden) {
  const std::uint64_t vocab = model.spec.vocab;
  std::vector<float> out(tokens.size() * vocab);
  if (hidden != nullptr) hidden->assign(model.spec.layers.size() + 2, {});
  with_session(model, {tokens.size()}, true, setup, [&](Session& session) {
    const auto cache = session.cache().acquire(tokens.size());
    const std::uint64_t step = session.plan().workspace.tokens;
    for (std::uint64_t at = 0; at < tokens.size(); at += step) {
      const std::uint64_t count = std::min(step, tokens.size() - at);
      const SequenceChunk chunk{.tokens = std::span(tokens).subspan(at, count),
                                .position = at,
                                .prompt_length = tokens.size(),
                                .cache = *cache,
                                .want = WantLogits::kAll};
      HiddenHook hook;
      if (hidden != nullptr) {
        hook = [&](std::size_t index, kernels::ConstRows rows, std::uint64_t n) {
          for (std::uint64_t t = 0; t < n; ++t) {
            const float* row = rows.data + t * rows.stride;
            (*hidden)[index].insert((*hidden)[index].end(), row, row + model.spec.hidden);
          }
        };
      }
      const bool more = at + count < tokens.size();
      const kernels::Rows logits = session.forward(
          {&chunk, 1}, more ? std::optional(offload::SweepSections{}) : std::nullopt, hook);
      for (std::uint64_t t = 0; t < count; ++t) {
        std::copy_n(logits.data + t * logits.stride, vocab, out.data() + (at + t) * vocab);
      }
    }
    session.cache().release(*cache);
  });
  return out;
}

std::vector<Generated> generate_with(const Model& model,
                                     const std::vector<GenerationRequest>& requests,
                                     const Setup& setup) {
  std::vector<std::uint64_t> lengths;
  for (const GenerationRequest& request : requests) {
    lengths.push_back(positions_needed(model, request));
  }
  std::vector<Generated> out;
  with_session(model, lengths, false, setup,
               [&](Session& session) { out = generate(session, requests, {}); });
  return out;
}

GenerationRequest greedy(std::vector<std::uint32_t> prompt, std::uint64_t new_tokens) {
  GenerationRequest request;
  request.prompt = std::move(prompt);
  request.max_new_tokens = new_tokens;
  request.ignore_eos = true;
  return request;
}

}  // namespace tidemill::engine::testing
