// The key-value cache, and how attention is shared out.
#include <algorithm>

#include "io/base/checked.h"
#include "io/base/error.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/share.h"

namespace tidemill::kernels::cpu {
namespace {

/// Queries of one sequence that read the same cache head: its tokens by the query heads of the
/// group. Neighbours in this order form the tiles.
std::uint64_t query_tiles(const SequenceRows& sequence, std::uint64_t group) {
  return (sequence.count * group + kQueryTile - 1) / kQueryTile;
}

std::uint64_t last_position(std::span<const SequenceRows> sequences) {
  std::uint64_t last = 0;
  for (const SequenceRows& sequence : sequences) {
    const std::uint64_t end = checked_add(sequence.position, sequence.count, "positions");
    TM_CHECK(end <= sequence.cache.capacity, "{} positions in a cache for {}", end,
             sequence.cache.capacity);
    last = std::max(last, end);
  }
  return last;
}

void check_shape(const AttentionShape& shape) {
  TM_CHECK(shape.kv_heads > 0 && shape.heads % shape.kv_heads == 0 && shape.head_dim > 0,
           "{} heads over {} cache heads of {} dimensions", shape.heads, shape.kv_heads,
           shape.head_dim);
}

}  // namespace

std::uint64_t CpuOps::kv_cache_floats(const AttentionShape& shape, std::uint64_t capacity) const {
  return KvLayout(shape, capacity).total;
}

void CpuOps::kv_append(Stream&, ConstRows qkv, const QkvLayout& layout, const AttentionShape& shape,
                       std::span<const SequenceRows> sequences) {
  check_shape(shape);
  last_position(sequences);
  for (const SequenceRows& sequence : sequences) {
    const KvLayout cache(shape, sequence.cache.capacity);
    const std::uint64_t heads = shape.kv_heads;
    for_rows(sequence.count * heads, std::uint64_t{2} * shape.head_dim, [&](std::uint64_t i) {
      const std::uint64_t head = i % heads;
      const std::uint64_t position = sequence.position + i / heads;
      const float* const row = qkv.data + (sequence.first_row + i / heads) * qkv.stride;
      const float* const key = row + layout.k_offset + head * layout.k_head_stride;
      float* const keys = sequence.cache.data + head * cache.key_head +
                          position / 16 * 16 * shape.head_dim + position % 16;
      for (std::uint64_t d = 0; d < shape.head_dim; ++d) keys[d * 16] = key[d];
      std::copy_n(row + layout.v_offset + head * layout.v_head_stride, shape.head_dim,
                  sequence.cache.data + cache.values + head * cache.value_head +
                      position * cache.value_row);
    });
  }
}

void CpuOps::attend_items(const AttentionArgs& args, std::uint64_t begin, std::uint64_t end,
                          float* scratch) const {
  const std::uint64_t group = args.shape.heads / args.shape.kv_heads;
  const std::uint64_t score_stride = align_up(max_positions_, 16);
  const SequenceRows* sequence = args.sequences.data();
  std::uint64_t first = 0;  // item of the sequence's first tile
  for (std::uint64_t item = begin; item < end; ++item) {
    std::uint64_t tiles = query_tiles(*sequence, group);
    while (item - first >= tiles * args.shape.kv_heads) {
      first += tiles * args.shape.kv_heads;
      tiles = query_tiles(*++sequence, group);
    }
    const std::uint64_t kv_head = (item - first) / tiles;
    const KvLayout cache(args.shape, sequence->cache.capacity);
    AttentionTask task{.queries = {},
                       .count = 0,
                       .keys = sequence->cache.data + kv_head * cache.key_head,
                       .values = sequence->cache.data + cache.values + kv_head * cache.value_head,
                       .head_dim = args.shape.head_dim,
                       .scale = args.scale,
                       .alibi = args.alibi_slopes != nullptr};
    std::uint64_t query = (item - first) % tiles * kQueryTile;
    const std::uint64_t queries = sequence->count * group;
    for (; task.count < kQueryTile && query < queries; ++query) {
      const std::uint64_t token = query / group;
      const std::uint64_t head = kv_head * group + query % group;
      const std::uint64_t row = sequence->first_row + token;
      const std::uint64_t visible = sequence->position + token + 1;
      task.queries[task.count++] = {
          .q = args.qkv.data + row * args.qkv.stride + args.layout.q_offset +
               head * args.layout.q_head_stride,
          .out = args.out.data + row * args.out.stride + head * args.shape.head_dim,
          .begin = args.window != 0 && visible > args.window ? visible - args.window : 0,
          .end = visible,
          .slope = task.alibi ? args.alibi_slopes[head] : 0.0f};
    }
    attention_.attend(task, scratch, score_stride);
  }
}

void CpuOps::attention(Stream&, const AttentionArgs& args) {
  check_shape(args.shape);
  const std::uint64_t group = args.shape.heads / args.shape.kv_heads;
  const std::lock_guard lock(mutex_);
  check_reserved(0, 0, last_position(args.sequences));
  std::uint64_t items = 0;
  std::uint64_t cost = 0;
  for (const SequenceRows& sequence : args.sequences) {
    items += query_tiles(sequence, group) * args.shape.kv_heads;
    const std::uint64_t end = sequence.position + sequence.count;
    const std::uint64_t seen = args.window == 0 ? end : std::min(end, args.window);
    cost += sequence.count * args.shape.heads * seen * args.shape.head_dim / 8;
  }
  if (items == 0) return;
  pool_.parallel_for(items, chunk_items(items, cost / items, 1, pool_.threads()),
                     [&](std::uint64_t begin, std::uint64_t end, unsigned worker) {
                       attend_items(args, begin, end, thread_scratch(worker));
                     });
}

}  // namespace tidemill::kernels::cpu
