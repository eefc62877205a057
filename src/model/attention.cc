#include <cmath>

#include "model/model.h"

// The attention site of one layer (model.md 6 and 7), in the order of 7.6: project, close groups
// and append their entries, score and select, attend, then let the window ring forget.

namespace deepinfer {

PagedRows Model::paged(ConstCacheRows pool, int ratio, const StepBatch& batch) const {
  return {pool, layout_.entries_per_block(ratio), batch.block_table, batch.max_blocks};
}

void Model::run_attention(int layer, CacheStore& caches, const StepBatch& batch,
                          ForwardObserver* observer) {
  const LayerWeights& layer_weights = weights_.layers[static_cast<std::size_t>(layer)];
  const AttentionWeights& weights = layer_weights.attention;
  const auto eps = static_cast<float>(config_.rms_norm_eps);
  const int heads = config_.num_attention_heads;
  const int ratio = config_.ratio(layer);
  const RopeAngles& angles = step_.angles(ratio);
  const Matrix input = site_in_.view(tokens_);
  const Matrix q_latent = q_latent_.view(tokens_);
  const Matrix query = query_.view(tokens_);
  const Matrix kv = kv_.view(tokens_);

  ops_.linear(input, weights.q_a, q_latent);
  ops_.rms_norm(q_latent, weights.q_norm, eps, q_latent);
  ops_.linear(q_latent, weights.q_b, query);
  ops_.rope(query, heads, angles.cos_view(), angles.sin_view(), false);
  ops_.linear(input, weights.kv, kv);
  ops_.rms_norm(kv, weights.kv_norm, eps, kv);
  ops_.rope(kv, 1, angles.cos_view(), angles.sin_view(), false);
  const CacheRows fresh{fresh_records_.data(), layout_.window_format(), config_.head_dim, tokens_,
                        record_bytes(layout_.window_format(), config_.head_dim)};
  ops_.store_records(kv, {}, fresh);

  AttentionKeys keys;
  keys.ring = caches.ring(layer);
  keys.ring_rows = step_.ring_rows();
  keys.ring_width = step_.ring_width();
  keys.fresh = fresh;
  keys.fresh_first = step_.fresh_first();
  keys.sequence = step_.sequence();
  PagedRows compressed;
  if (ratio > 0) {
    if (layer_weights.compressor != nullptr) run_compressor(layer, caches);
    if (layer_weights.index_key != nullptr) run_index_keys(layer, caches);
    if (layer_weights.indexer != nullptr) run_indexer(layer, caches, batch, observer);
    compressed = paged(caches.compressed(config_.kv_source(layer)), ratio, batch);
    keys.compressed = &compressed;
    keys.selected = {selected_.data(), static_cast<std::size_t>(tokens_ * config_.index_topk)};
    keys.selected_width = config_.index_topk;
  }

  const Matrix attended = attended_.view(tokens_);
  const float scale = 1.0F / std::sqrt(static_cast<float>(config_.head_dim));
  ops_.attention(query, heads, keys, weights.sink, scale, attended);
  ops_.copy_records(fresh, step_.ring_store(), caches.ring(layer));

  ops_.rope(attended, heads, angles.cos_view(), angles.sin_view(), true);
  const Matrix o_latent = o_latent_.view(tokens_);
  ops_.grouped_linear(attended, weights.o_a, config_.o_groups, o_latent);
  ops_.linear(o_latent, weights.o_b, site_out_.view(tokens_));
}

void Model::run_compressor(int layer, CacheStore& caches) {
  const LayerWeights& layer_weights = weights_.layers[static_cast<std::size_t>(layer)];
  const CompressorWeights& weights = *layer_weights.compressor;
  const int ratio = config_.ratio(layer);
  const CompressionLayout& part = step_.compression(ratio);
  const auto eps = static_cast<float>(config_.rms_norm_eps);
  const auto closed = static_cast<std::int64_t>(part.pool_rows.size());
  const Matrix value = value_.view(tokens_);
  const Matrix entries = entries_.view(closed);
  const Matrix latent = latent_.view(closed);

  ops_.linear(site_in_.view(tokens_), weights.value, value);
  Matrix pooled = value;
  if (ratio == 2) {
    const Matrix gate = gate_.view(tokens_);
    ops_.linear(site_in_.view(tokens_), weights.gate, gate);
    ops_.pool_pairs(gate, value, part.pairs, caches.pair_state(layer), entries);
    ops_.store_pair_state(gate, value, part.state_rows, caches.pair_state(layer));
    pooled = entries;
  }
  if (closed == 0) return;
  // The latent before its rotation stays for the index keys of this layer and of later index-K
  // sources in its segment (model.md 7.2).
  ops_.rms_norm(pooled, weights.norm, eps, latent);
  ops_.rms_norm(pooled, weights.norm, eps, entries);
  ops_.rope(entries, 1, part.angles.cos_view(), part.angles.sin_view(), false);
  ops_.store_records(entries, part.pool_rows, caches.compressed(layer));
}

void Model::run_index_keys(int layer, CacheStore& caches) {
  const IndexKeyWeights& weights = *weights_.layers[static_cast<std::size_t>(layer)].index_key;
  const CompressionLayout& part = step_.compression(config_.ratio(layer));
  const auto closed = static_cast<std::int64_t>(part.pool_rows.size());
  if (closed == 0) return;
  const Matrix index_key = index_key_.view(closed);
  ops_.linear(latent_.view(closed), weights.key, index_key);
  ops_.rms_norm(index_key, weights.norm, static_cast<float>(config_.rms_norm_eps), index_key);
  ops_.rope(index_key, 1, part.angles.cos_view(), part.angles.sin_view(), false);
  ops_.store_records(index_key, part.pool_rows, caches.index_keys(layer));
}

void Model::run_indexer(int layer, CacheStore& caches, const StepBatch& batch,
                        ForwardObserver* observer) {
  const IndexerWeights& weights = *weights_.layers[static_cast<std::size_t>(layer)].indexer;
  const int ratio = config_.ratio(layer);
  const RopeAngles& angles = step_.angles(ratio);
  const Matrix query = index_query_.view(tokens_);
  const Matrix head_weights = index_weights_.view(tokens_);
  ops_.linear(q_latent_.view(tokens_), weights.query, query);
  ops_.rope(query, config_.index_n_heads, angles.cos_view(), angles.sin_view(), false);
  ops_.round_trip(query, config_.index_head_dim, layout_.index_format());
  ops_.linear(site_in_.view(tokens_), weights.weights, head_weights);

  IndexSelectParams params{
      config_.index_n_heads, config_.index_head_dim,        config_.index_topk,
      CandidateMode::kNone,  config_.candidate_topk_blocks, config_.candidate_block_size};
  if (config_.candidate_source_layer_id.has_value()) {
    const int source = *config_.candidate_source_layer_id;
    if (layer == source) params.candidates = CandidateMode::kPublish;
    if (layer > source) params.candidates = CandidateMode::kUse;
  }
  const std::span<std::int32_t> blocks(
      blocks_.data(), static_cast<std::size_t>(tokens_ * config_.candidate_topk_blocks));
  const std::span<std::int32_t> selected(selected_.data(),
                                         static_cast<std::size_t>(tokens_ * config_.index_topk));
  ops_.index_select(query, head_weights,
                    paged(caches.index_keys(config_.index_k_source(layer)), ratio, batch),
                    step_.sequence(), step_.compression(ratio).visible, params, blocks, selected);
  if (observer != nullptr) {
    observer->on_indices("selected", layer, selected, config_.index_topk);
    if (params.candidates == CandidateMode::kPublish) {
      observer->on_indices("candidate_blocks", layer, blocks, config_.candidate_topk_blocks);
    }
  }
}

}  // namespace deepinfer
