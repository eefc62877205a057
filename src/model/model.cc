#include "model/model.h"

#include <algorithm>
#include <string>

#include "base/error.h"

namespace deepinfer {

void Model::Buffer::reserve(std::int64_t rows, std::int64_t columns) {
  cols = columns;
  values.resize(static_cast<std::size_t>(rows * columns));
}

Model::Model(const ModelConfig& config, const ModelWeights& weights, const CacheLayout& layout,
             Ops& ops, std::vector<std::int32_t> token_map, const ModelOptions& options)
    : config_(config),
      weights_(weights),
      layout_(layout),
      ops_(ops),
      options_(options),
      hc_params_{config.hc_mult, config.hc_sinkhorn_iters, static_cast<float>(config.hc_eps),
                 static_cast<float>(config.rms_norm_eps)},
      step_(config, layout) {
  if (options.numerics == NumericsProfile::kProduction) {
    fail(ErrorKind::kUnsupported, "numerics production: the " + std::string(ops.name()) +
                                      " back end computes exact and exact+cache");
  }
  const std::int64_t rows = options.max_tokens;
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t streams = config.hc_mult;
  const std::int64_t head_cols =
      static_cast<std::int64_t>(config.num_attention_heads) * config.head_dim;
  streams_.reserve(rows, streams * hidden);
  for (Buffer* buffer : {&pre_, &next_pre_, &post_, &gates_}) buffer->reserve(rows, streams);
  comb_.reserve(rows, streams * streams);
  site_in_.reserve(rows, hidden);
  site_out_.reserve(rows, hidden);
  q_latent_.reserve(rows, config.q_lora_rank);
  query_.reserve(rows, head_cols);
  attended_.reserve(rows, head_cols);
  for (Buffer* buffer : {&kv_, &gate_, &value_, &entries_, &latent_}) {
    buffer->reserve(rows, config.head_dim);
  }
  o_latent_.reserve(rows, static_cast<std::int64_t>(config.o_groups) * config.o_lora_rank);
  index_key_.reserve(rows, config.index_head_dim);
  index_query_.reserve(rows,
                       static_cast<std::int64_t>(config.index_n_heads) * config.index_head_dim);
  index_weights_.reserve(rows, config.index_n_heads);
  router_.reserve(rows, config.n_routed_experts);
  fresh_records_.resize(
      static_cast<std::size_t>(rows * record_bytes(layout.window_format(), config.head_dim)));
  selected_.resize(static_cast<std::size_t>(rows * config.index_topk));
  blocks_.resize(static_cast<std::size_t>(rows * config.candidate_topk_blocks));
  experts_.resize(static_cast<std::size_t>(rows * config.num_experts_per_tok));
  expert_weights_.resize(experts_.size());
  all_active_.assign(static_cast<std::size_t>(rows), 1);
  if (!config.engram_layer_ids.empty()) {
    engram_hash_.emplace_back(config, std::move(token_map));
    const std::int64_t columns = config.engram_columns();
    engram_rows_.reserve(rows, columns * config.engram_head_dim);
    engram_kv_.reserve(rows, (streams + 1) * hidden);
    hash_rows_.resize(static_cast<std::size_t>(rows * columns));
  }
}

void Model::forward(const StepBatch& batch, CacheStore& caches, Matrix logits,
                    ForwardObserver* observer) {
  tokens_ = static_cast<std::int64_t>(batch.token_ids.size());
  if (tokens_ > options_.max_tokens) {
    fail_internal("a step of " + std::to_string(tokens_) + " rows; the model was made for " +
                  std::to_string(options_.max_tokens));
  }
  step_.prepare(batch);
  ops_.embed(batch.token_ids, weights_.embedding, config_.hc_mult, streams_.view(tokens_));
  const Matrix pre = pre_.view(tokens_);
  for (std::int64_t t = 0; t < tokens_; ++t) {  // the first site collapses stream 0 alone
    std::fill_n(pre.row(t), pre.cols, 0.0F);
    pre.row(t)[0] = 1.0F;
  }
  for (int layer = 0; layer < config_.num_hidden_layers; ++layer) {
    run_layer(layer, batch, caches, observer);
  }
  run_head(batch, logits, observer);
}

void Model::run_layer(int layer, const StepBatch& batch, CacheStore& caches,
                      ForwardObserver* observer) {
  const LayerWeights& weights = weights_.layers[static_cast<std::size_t>(layer)];
  const Matrix streams = streams_.view(tokens_);
  const Matrix site_in = site_in_.view(tokens_);
  const Matrix site_out = site_out_.view(tokens_);
  const Matrix post = post_.view(tokens_);
  const Matrix comb = comb_.view(tokens_);
  const auto eps = static_cast<float>(config_.rms_norm_eps);

  if (weights.engram != nullptr) run_engram(layer, batch, observer);

  ops_.hc_mixes(streams, weights.attention_hc.view(), hc_params_, next_pre_.view(tokens_), post,
                comb);
  ops_.hc_collapse_norm(streams, pre_.view(tokens_), weights.attention_norm, eps, site_in);
  if (observer != nullptr) {
    observer->on_values("attn_in", layer, site_in);
    observer->on_values("attn_pre", layer, next_pre_.view(tokens_));
    observer->on_values("attn_post", layer, post);
    observer->on_values("attn_comb", layer, comb);
  }
  run_attention(layer, caches, batch, observer);
  if (observer != nullptr) observer->on_values("attn_out", layer, site_out);
  ops_.hc_expand(streams, site_out, post, comb);
  std::swap(pre_, next_pre_);

  ops_.hc_mixes(streams, weights.ffn_hc.view(), hc_params_, next_pre_.view(tokens_), post, comb);
  ops_.hc_collapse_norm(streams, pre_.view(tokens_), weights.ffn_norm, eps, site_in);
  if (observer != nullptr) observer->on_values("ffn_in", layer, site_in);
  run_moe(layer, observer);
  if (observer != nullptr) observer->on_values("ffn_out", layer, site_out);
  ops_.hc_expand(streams, site_out, post, comb);
  std::swap(pre_, next_pre_);
  if (observer != nullptr) {
    observer->on_values("pre_mix", layer, pre_.view(tokens_));
    observer->on_values("out", layer, streams);
  }
}

void Model::run_engram(int layer, const StepBatch& batch, ForwardObserver* observer) {
  const EngramWeights& weights = *weights_.layers[static_cast<std::size_t>(layer)].engram;
  const EngramHash& hash = engram_hash_.front();
  const auto count = static_cast<std::size_t>(tokens_ * hash.columns());
  const std::span<std::int64_t> rows(hash_rows_.data(), count);
  hash.rows(config_.engram_index(layer), batch.ngram_ids, rows);
  if (observer != nullptr) observer->on_engram_rows(layer, rows, hash.columns());

  const Matrix looked_up = engram_rows_.view(tokens_);
  weights.table->read(rows, looked_up.data);
  ops_.linear(looked_up, weights.kv, engram_kv_.view(tokens_));
  const Matrix gates = gates_.view(tokens_);
  ops_.engram_gate(streams_.view(tokens_), engram_kv_.view(tokens_), weights.q_weight,
                   weights.k_weight, {all_active_.data(), static_cast<std::size_t>(tokens_)},
                   config_.hc_mult, static_cast<float>(config_.rms_norm_eps), gates);
  if (observer != nullptr) {
    observer->on_values("engram_gate", layer, gates);
    observer->on_values("engram_out", layer, streams_.view(tokens_));
  }
}

void Model::run_moe(int layer, ForwardObserver* observer) {
  const MoeWeights& weights = weights_.layers[static_cast<std::size_t>(layer)].moe;
  const std::int64_t top_k = config_.num_experts_per_tok;
  const auto count = static_cast<std::size_t>(tokens_ * top_k);
  const std::span<std::int32_t> experts(experts_.data(), count);
  const std::span<float> expert_weights(expert_weights_.data(), count);
  ops_.linear(site_in_.view(tokens_), weights.gate, router_.view(tokens_));
  ops_.route(router_.view(tokens_), weights.bias, weights.bias_vl, {},
             {top_k, static_cast<float>(config_.routed_scaling_factor)}, experts, expert_weights);
  if (observer != nullptr) {
    observer->on_indices("route_idx", layer, experts, top_k);
    observer->on_values("route_w", layer, {expert_weights.data(), tokens_, top_k});
  }
  ops_.moe(site_in_.view(tokens_), experts, expert_weights, top_k,
           {weights.experts, weights.residency.get()}, weights.shared,
           static_cast<float>(config_.swiglu_limit), site_out_.view(tokens_));
}

void Model::run_head(const StepBatch& batch, Matrix logits, ForwardObserver* observer) {
  const auto count = static_cast<std::int64_t>(batch.logits_rows.size());
  if (count == 0) return;
  head_streams_.reserve(count, streams_.cols);
  head_pre_.reserve(count, pre_.cols);
  hidden_.reserve(count, config_.hidden_size);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int32_t row = batch.logits_rows[static_cast<std::size_t>(i)];
    std::copy_n(streams_.view(tokens_).row(row), streams_.cols, head_streams_.view(count).row(i));
    std::copy_n(pre_.view(tokens_).row(row), pre_.cols, head_pre_.view(count).row(i));
  }
  const Matrix hidden = hidden_.view(count);
  ops_.hc_collapse_norm(head_streams_.view(count), head_pre_.view(count), weights_.norm,
                        static_cast<float>(config_.rms_norm_eps), hidden);
  if (observer != nullptr) observer->on_values("final_hidden", -1, hidden);
  ops_.linear(hidden, weights_.head, logits);
}

}  // namespace deepinfer
