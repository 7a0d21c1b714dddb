#include "engine/tokenizer/tokenizer.h"

#include <algorithm>
#include <istream>
#include <system_error>
#include <utility>

#include "engine/tokenizer/added_tokens.h"
#include "engine/tokenizer/bpe.h"
#include "engine/tokenizer/decoder.h"
#include "engine/tokenizer/file_stream.h"
#include "engine/tokenizer/json_fields.h"
#include "engine/tokenizer/normalizer.h"
#include "engine/tokenizer/post_processor.h"
#include "engine/tokenizer/pre_tokenizer.h"
#include "engine/tokenizer/tokenizer_file.h"
#include "engine/tokenizer/utf8.h"
#include "io/base/error.h"

namespace tidemill::engine {
namespace {

using nlohmann::json;

constexpr std::uint64_t kMaxFileBytes = 256ULL << 20;

const json& field_or_null(const json& config, std::string_view name) {
  static const json null;
  const json* field = find_field(config, name);
  return field == nullptr ? null : *field;
}

// Options of the model that would change its result and that Tidemill does not have.
void refuse_affixes_and_dropout(const json& model) {
  for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const json* field = find_field(model, name);
    if (field != nullptr && !(field->is_string() && field->get_ref<const std::string&>().empty())) {
      throw_error(ErrorKind::kModel, "model BPE: {} is not supported", name);
    }
  }
  const json* dropout = find_field(model, "dropout");
  if (dropout != nullptr && (!dropout->is_number() || dropout->get<double>() != 0.0)) {
    throw_error(ErrorKind::kModel, "model BPE: dropout is not supported");
  }
}

Bpe make_model(TokenizerFile& file) {
  constexpr std::string_view kWhere = "model BPE";
  const json& model = field_or_null(file.config, "model");
  require_object(model, "model");
  // Old files have no type; only BPE has merges.
  if (find_field(model, "type") != nullptr) {
    const std::string type = string_field(model, "type", "model");
    if (type != "BPE") unsupported_type("model", type);
  } else if (file.merges.size() == 0) {
    throw_error(ErrorKind::kModel, "model has neither a type nor merges");
  }
  if (file.vocabulary.empty()) throw_error(ErrorKind::kModel, "model.vocab is missing or empty");
  refuse_affixes_and_dropout(model);
  BpeOptions options;
  if (find_field(model, "unk_token") != nullptr) {
    options.unk_token = string_field(model, "unk_token", kWhere);
  }
  options.fuse_unk = bool_field(model, "fuse_unk", false, kWhere);
  options.byte_fallback = bool_field(model, "byte_fallback", false, kWhere);
  options.ignore_merges = bool_field(model, "ignore_merges", false, kWhere);
  return Bpe(std::move(file.vocabulary), std::move(file.merges), options);
}

}  // namespace

struct Tokenizer::Impl {
  Bpe model;
  Normalizer normalizer;
  AddedTokens added;
  PreTokenizer pre_tokenizer;
  std::uint32_t vocab_size;
  PostProcessor post_processor;
  Decoder decoder;

  explicit Impl(TokenizerFile file)
      : model(make_model(file)),
        normalizer(Normalizer::parse(field_or_null(file.config, "normalizer"))),
        added(AddedTokens::parse(field_or_null(file.config, "added_tokens"), model.vocabulary(),
                                 normalizer)),
        pre_tokenizer(PreTokenizer::parse(field_or_null(file.config, "pre_tokenizer"))),
        vocab_size(std::max(model.vocabulary().size(), added.size())),
        post_processor(
            PostProcessor::parse(field_or_null(file.config, "post_processor"), vocab_size)),
        decoder(Decoder::parse(field_or_null(file.config, "decoder"))) {}

  static std::shared_ptr<const Impl> read(std::streambuf& buffer, const std::string& origin) {
    try {
      std::istream stream(&buffer);
      // Errors of the buffer are ours; the stream must not turn them into a state bit.
      TokenizerFile file = read_tokenizer_file(stream);
      require_object(file.config, "the file");
      return std::make_shared<const Impl>(std::move(file));
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kModel) throw;
      throw Error(error.kind(), fmt::format("{}: {}", printable(origin), error.what()),
                  {.path = origin});
    }
  }

  std::string_view token(std::uint32_t id) const {
    const AddedToken* token = added.find(id);
    return token != nullptr ? std::string_view(token->content) : model.vocabulary().token(id);
  }

  // Text without added tokens that are matched before normalisation.
  void encode_text(std::string_view text, bool at_start, std::vector<std::uint32_t>& ids) const {
    const std::string normalized = normalizer.apply(text);
    for (const auto& segment : added.split(normalized, /*normalized=*/true)) {
      if (segment.id) {
        ids.push_back(*segment.id);
        continue;
      }
      const std::size_t length = segment.range.end - segment.range.begin;
      Pieces pieces{.text = normalized.substr(segment.range.begin, length),
                    .ranges = {{0, length}},
                    .at_start = at_start && segment.range.begin == 0};
      pre_tokenizer.apply(pieces);
      for (const TextRange& range : pieces.ranges) model.encode(pieces.piece(range), ids);
    }
  }

  // Appends the token's text to `out`, as far as it is certain.
  void decode_one(std::uint32_t id, bool skip_special_tokens, Decoder::Run& run,
                  std::string& out) const {
    if (id >= vocab_size) {
      throw_error(ErrorKind::kUsage, "token id {} is outside the tokenizer's vocabulary of {}", id,
                  vocab_size);
    }
    if (skip_special_tokens && added.is_special(id)) return;
    if (const AddedToken* token = added.find(id)) {
      run.feed(token->searched, out);
    } else if (model.vocabulary().contains(id)) {
      run.feed(model.vocabulary().token(id), out);
    }
  }
};

Tokenizer::Tokenizer(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

Tokenizer Tokenizer::load(const std::filesystem::path& model_dir) {
  const std::filesystem::path path = model_dir / "tokenizer.json";
  std::error_code ignored;
  if (std::filesystem::is_directory(model_dir, ignored) &&
      !std::filesystem::exists(path, ignored)) {
    throw Error(ErrorKind::kModel,
                fmt::format("{}: no tokenizer.json; a model with another tokenizer file can be "
                            "saved with one by transformers' AutoTokenizer",
                            printable(model_dir.string())),
                {.path = path.string(), .offset = {}});
  }
  FileStreamBuffer buffer(path, kMaxFileBytes);
  return Tokenizer(Impl::read(buffer, path.string()));
}

Tokenizer Tokenizer::parse(std::string_view tokenizer_json, const std::string& origin) {
  MemoryStreamBuffer buffer(tokenizer_json);
  return Tokenizer(Impl::read(buffer, origin));
}

std::vector<std::uint32_t> Tokenizer::encode(std::string_view text, bool add_special_tokens) const {
  if (const std::size_t bad = find_invalid_utf8(text); bad != std::string_view::npos) {
    throw_error(ErrorKind::kUsage, "the prompt is not valid UTF-8 at byte {}", bad);
  }
  std::vector<std::uint32_t> ids;
  for (const auto& segment : impl_->added.split(text, /*normalized=*/false)) {
    if (segment.id) {
      ids.push_back(*segment.id);
    } else {
      const std::size_t length = segment.range.end - segment.range.begin;
      impl_->encode_text(text.substr(segment.range.begin, length), segment.range.begin == 0, ids);
    }
  }
  if (add_special_tokens) impl_->post_processor.apply(ids);
  return ids;
}

std::string Tokenizer::decode(std::span<const std::uint32_t> ids, bool skip_special_tokens) const {
  Decoder::Run run(impl_->decoder);
  std::string text;
  for (const std::uint32_t id : ids) impl_->decode_one(id, skip_special_tokens, run, text);
  run.finish(text);
  return text;
}

std::uint32_t Tokenizer::vocab_size() const { return impl_->vocab_size; }

bool Tokenizer::is_special(std::uint32_t id) const { return impl_->added.is_special(id); }

std::optional<std::uint32_t> Tokenizer::token_to_id(std::string_view token) const {
  if (const auto id = impl_->added.find(token)) return id;
  return impl_->model.vocabulary().find(token);
}

std::string Tokenizer::id_to_token(std::uint32_t id) const { return std::string(impl_->token(id)); }

struct StreamDecoder::State {
  std::shared_ptr<const Tokenizer::Impl> tokenizer;
  bool skip_special_tokens;
  Decoder::Run run;
};

StreamDecoder::StreamDecoder(const Tokenizer& tokenizer, bool skip_special_tokens)
    : state_(new State{tokenizer.impl_, skip_special_tokens,
                       Decoder::Run(tokenizer.impl_->decoder)}) {}
StreamDecoder::StreamDecoder(StreamDecoder&&) noexcept = default;
StreamDecoder& StreamDecoder::operator=(StreamDecoder&&) noexcept = default;
StreamDecoder::~StreamDecoder() = default;

std::string StreamDecoder::push(std::uint32_t id) {
  std::string text;
  state_->tokenizer->decode_one(id, state_->skip_special_tokens, state_->run, text);
  return text;
}

std::string StreamDecoder::finish() {
  std::string text;
  state_->run.finish(text);
  return text;
}

}  // namespace tidemill::engine
