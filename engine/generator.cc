#include "engine/generator.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>

#include "io/base/error.h"

namespace tidemill::engine {
namespace {

// A request that holds a cache region.
struct Active {
  std::size_t request = 0;
  SequenceCache cache;
  std::vector<std::uint32_t> history;  // prompt and what was generated
  std::uint64_t fed = 0;               // tokens of the history that went through the model
  std::uint64_t generated = 0;
  std::unique_ptr<Sampler> sampler;

  std::uint64_t remaining() const { return history.size() - fed; }
};

class Generation {
 public:
  Generation(Session& session, std::span<const GenerationRequest> requests,
             const TokenCallback& on_token)
      : session_(session), requests_(requests), on_token_(on_token), results_(requests.size()) {
    for (std::size_t i = 0; i < requests.size(); ++i) {
      validate(session.model(), requests[i]);
      if (requests[i].max_new_tokens > 0) waiting_.push_back(i);
    }
  }

  ~Generation() {
    for (const Active& active : active_) session_.cache().release(active.cache);
  }

  bool done() const { return active_.empty() && waiting_.empty(); }

  // One sweep; returns its rows.
  std::uint64_t step() {
    admit();
    const WorkspaceLayout& limits = session_.plan().workspace;
    std::vector<std::uint64_t> remaining;
    for (const Active& active : active_) remaining.push_back(active.remaining());
    const auto shares = share_rows(remaining, limits.tokens, limits.outputs);

    std::vector<SequenceChunk> chunks;
    std::vector<std::size_t> sampled;  // index into active_, one per logits row
    std::uint64_t rows = 0;
    for (std::size_t i = 0; i < active_.size(); ++i) {
      if (shares[i].take == 0) continue;
      const Active& active = active_[i];
      chunks.push_back({.tokens = std::span(active.history).subspan(active.fed, shares[i].take),
                        .position = active.fed,
                        .prompt_length = requests_[active.request].prompt.size(),
                        .cache = active.cache,
                        .want = shares[i].wants_logits ? WantLogits::kLast : WantLogits::kNone});
      if (shares[i].wants_logits) sampled.push_back(i);
      rows += shares[i].take;
    }
    const kernels::Rows logits = session_.forward(chunks, predict(shares));
    for (std::size_t i = 0; i < active_.size(); ++i) active_[i].fed += shares[i].take;
    for (std::size_t row = 0; row < sampled.size(); ++row) {
      sample(active_[sampled[row]],
             {logits.data + row * logits.stride, session_.model().spec.vocab});
    }
    retire();
    return rows;
  }

  std::vector<Generated> take_results() { return std::move(results_); }

 private:
  void admit() {
    const std::uint64_t most = session_.plan().workspace.outputs;
    while (!waiting_.empty() && active_.size() < most) {
      const GenerationRequest& request = requests_[waiting_.front()];
      const auto cache = session_.cache().acquire(positions_needed(session_.model(), request));
      if (!cache) break;
      active_.push_back({.request = waiting_.front(),
                         .cache = *cache,
                         .history = request.prompt,
                         .fed = 0,
                         .generated = 0,
                         .sampler = std::make_unique<Sampler>(
                             request.sampling, request.ignore_eos ? std::vector<std::uint32_t>{}
                                                                  : session_.model().spec.eos)});
      waiting_.pop_front();
    }
    TM_CHECK(!active_.empty(), "{} requests wait and none fits", waiting_.size());
  }

  bool last_token(const Active& active, std::uint64_t generated) const {
    return generated >= requests_[active.request].max_new_tokens ||
           requests_[active.request].prompt.size() + generated >= active.cache.capacity;
  }

  // The sections of the sweep after this one, supposing that no sequence ends early.
  std::optional<offload::SweepSections> predict(std::span<const RowShare> shares) const {
    std::vector<std::uint64_t> remaining;
    for (std::size_t i = 0; i < active_.size(); ++i) {
      const Active& active = active_[i];
      if (!shares[i].wants_logits) {
        remaining.push_back(active.remaining() - shares[i].take);
      } else if (!last_token(active, active.generated + 1)) {
        remaining.push_back(1);
      }
    }
    const WorkspaceLayout& limits = session_.plan().workspace;
    if (remaining.size() < limits.outputs && !waiting_.empty()) {
      remaining.push_back(requests_[waiting_.front()].prompt.size());
    }
    if (remaining.empty()) return std::nullopt;
    const auto next = share_rows(remaining, limits.tokens, limits.outputs);
    const bool head = std::any_of(next.begin(), next.end(),
                                  [](const RowShare& share) { return share.wants_logits; });
    return offload::SweepSections{.head = head};
  }

  void sample(Active& active, std::span<float> logits) {
    const GenerationRequest& request = requests_[active.request];
    const std::uint32_t token = active.sampler->next(logits, active.history, request.prompt.size());
    active.history.push_back(token);
    ++active.generated;
    Generated& result = results_[active.request];
    result.tokens.push_back(token);
    const auto& eos = session_.model().spec.eos;
    std::optional<FinishReason> end;
    if (!request.ignore_eos && std::find(eos.begin(), eos.end(), token) != eos.end()) {
      end = FinishReason::kEos;
    } else if (last_token(active, active.generated)) {
      end = FinishReason::kLength;
    }
    if (on_token_ && !on_token_(active.request, token, end)) end = FinishReason::kStopped;
    if (end) finish(active, *end);
  }

  void finish(Active& active, FinishReason reason) {
    results_[active.request].reason = reason;
    session_.cache().release(active.cache);
    active.cache = {};
  }

  void retire() {
    std::erase_if(active_, [](const Active& active) { return active.cache.data == nullptr; });
  }

  Session& session_;
  std::span<const GenerationRequest> requests_;
  const TokenCallback& on_token_;
  std::deque<std::size_t> waiting_;
  std::vector<Active> active_;
  std::vector<Generated> results_;
};

}  // namespace

std::string_view to_string(FinishReason reason) {
  switch (reason) {
    case FinishReason::kEos:
      return "eos";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kStopped:
      return "stop";
  }
  return "unknown";
}

void validate(const Model& model, const GenerationRequest& request) {
  if (request.prompt.empty()) {
    throw_error(ErrorKind::kUsage, "the prompt has no tokens; give at least one");
  }
  for (const std::uint32_t token : request.prompt) {
    if (token >= model.spec.vocab) {
      throw_error(ErrorKind::kUsage, "token id {} is outside of the model's vocabulary of {}",
                  token, model.spec.vocab);
    }
  }
  if (model.spec.max_positions != 0 && request.prompt.size() > model.spec.max_positions) {
    throw_error(ErrorKind::kUsage, "the prompt has {} tokens, the model has {} positions",
                request.prompt.size(), model.spec.max_positions);
  }
  validate(request.sampling);
}

std::uint64_t positions_needed(const Model& model, const GenerationRequest& request) {
  std::uint64_t positions = request.prompt.size() + request.max_new_tokens;
  if (model.spec.max_positions != 0) positions = std::min(positions, model.spec.max_positions);
  return std::max<std::uint64_t>(positions, 1);
}

std::vector<RowShare> share_rows(std::span<const std::uint64_t> remaining, std::uint64_t max_rows,
                                 std::uint64_t max_outputs) {
  std::vector<RowShare> shares(remaining.size());
  std::uint64_t rows = 0;
  std::uint64_t outputs = 0;
  for (const bool decode : {true, false}) {
    for (std::size_t i = 0; i < remaining.size(); ++i) {
      if ((remaining[i] == 1) != decode || remaining[i] == 0) continue;
      const std::uint64_t take = std::min(remaining[i], max_rows - rows);
      if (take == 0) continue;
      TM_CHECK(take < remaining[i] || outputs < max_outputs, "{} sequences, {} outputs",
               remaining.size(), max_outputs);
      shares[i] = {.take = take, .wants_logits = take == remaining[i]};
      rows += take;
      outputs += shares[i].wants_logits ? 1 : 0;
    }
  }
  return shares;
}

std::vector<Generated> generate(Session& session, std::span<const GenerationRequest> requests,
                                const TokenCallback& on_token, const SweepCallback& on_sweep) {
  Generation generation(session, requests, on_token);
  while (!generation.done()) {
    const std::uint64_t rows = generation.step();
    if (on_sweep) on_sweep(rows);
  }
  return generation.take_results();
}

}  // namespace tidemill::engine
