#include "model/step_layout.h"

#include <algorithm>
#include <string>

#include "base/error.h"
#include "model/rope.h"

namespace deepinfer {

void RopeAngles::fill(std::span<const std::int32_t> positions, std::span<const float> frequencies) {
  pairs = static_cast<std::int64_t>(frequencies.size());
  const std::size_t count = positions.size() * frequencies.size();
  cos.resize(count);
  sin.resize(count);
  const auto rows = static_cast<std::int64_t>(positions.size());
  fill_rope_angles(positions, frequencies, {cos.data(), rows, pairs}, {sin.data(), rows, pairs});
}

StepLayout::StepLayout(const ModelConfig& config, const CacheLayout& layout)
    : layout_(layout),
      window_(config.sliding_window),
      ring_width_(config.sliding_window - 1),
      ngram_size_(config.engram_layer_ids.empty() ? 0 : config.engram_max_ngram_size),
      plain_frequencies_(plain_rope_frequencies(config)),
      yarn_frequencies_(yarn_rope_frequencies(config)) {}

void StepLayout::prepare(const StepBatch& batch) {
  positions_.clear();
  sequence_.clear();
  ring_rows_.clear();
  fresh_first_.clear();
  ring_store_.clear();
  for (CompressionLayout& part : compression_) {
    part.visible.clear();
    part.pool_rows.clear();
    part.positions.clear();
    part.pairs.clear();
    part.state_rows.clear();
  }
  check_lists(batch);
  std::int32_t expected_row = 0;
  for (std::size_t s = 0; s < batch.sequences.size(); ++s) {
    const SequenceRows& rows = batch.sequences[s];
    if (rows.state_slot < 1) {
      fail_internal("step layout: sequence " + std::to_string(s) + " has no state slot");
    }
    if (rows.first_row != expected_row || rows.rows <= 0 || rows.start_position < 0) {
      fail_internal("step layout: sequence " + std::to_string(s) + " starts at row " +
                    std::to_string(rows.first_row) + ", expected " + std::to_string(expected_row));
    }
    if (layout_.blocks_for(rows.start_position + rows.rows) > batch.max_blocks) {
      fail_internal("step layout: sequence " + std::to_string(s) + " outgrows its block table");
    }
    expected_row += rows.rows;
    for (std::int32_t row = 0; row < rows.rows; ++row) add_token(batch, s, row);
  }
  if (expected_row != static_cast<std::int32_t>(batch.token_ids.size())) {
    fail_internal("step layout: sequences cover " + std::to_string(expected_row) + " of " +
                  std::to_string(batch.token_ids.size()) + " rows");
  }
  plain_angles_.fill(positions_, plain_frequencies_);
  yarn_angles_.fill(positions_, yarn_frequencies_);
  for (int ratio = 1; ratio <= 2; ++ratio) {
    compression_[ratio].angles.fill(compression_[ratio].positions, yarn_frequencies_);
  }
}

void StepLayout::check_lists(const StepBatch& batch) const {
  const std::size_t tokens = batch.token_ids.size();
  const auto expect = [](std::size_t found, std::size_t expected, const char* what) {
    if (found != expected) {
      fail_internal("step layout: " + std::to_string(found) + " " + what + ", expected " +
                    std::to_string(expected));
    }
  };
  expect(batch.block_table.size(),
         batch.sequences.size() * static_cast<std::size_t>(batch.max_blocks),
         "block table entries");
  expect(batch.ngram_ids.size(), tokens * static_cast<std::size_t>(ngram_size_), "n-gram ids");
  std::int32_t last = -1;
  for (const std::int32_t row : batch.logits_rows) {
    if (row <= last || row >= static_cast<std::int32_t>(tokens)) {
      fail_internal("step layout: logits row " + std::to_string(row) + " of " +
                    std::to_string(tokens) + " rows, after row " + std::to_string(last));
    }
    last = row;
  }
}

void StepLayout::add_token(const StepBatch& batch, std::size_t sequence, std::int32_t row) {
  const SequenceRows& rows = batch.sequences[sequence];
  const std::int32_t position = rows.start_position + row;
  positions_.push_back(position);
  sequence_.push_back(static_cast<std::int32_t>(sequence));

  const std::int32_t ring = layout_.ring_size();
  const auto ring_row = [&](std::int32_t p) { return rows.state_slot * ring + p % ring; };
  const auto first_key =
      static_cast<std::int32_t>(std::max<std::int64_t>(0, position - window_ + 1));
  std::int64_t listed = 0;
  for (std::int32_t p = first_key; p < rows.start_position; ++p, ++listed) {
    ring_rows_.push_back(ring_row(p));
  }
  ring_rows_.resize(ring_rows_.size() + static_cast<std::size_t>(ring_width_ - listed), -1);
  fresh_first_.push_back(rows.first_row + std::max(0, first_key - rows.start_position));
  const bool overwritten = row + ring < rows.rows;
  ring_store_.push_back(overwritten ? -1 : ring_row(position));

  add_compression(batch, sequence, row, position, 1);
  add_compression(batch, sequence, row, position, 2);
}

void StepLayout::add_compression(const StepBatch& batch, std::size_t sequence, std::int32_t row,
                                 std::int32_t position, int ratio) {
  const SequenceRows& rows = batch.sequences[sequence];
  CompressionLayout& part = compression_[ratio];
  part.visible.push_back((position + 1) / ratio);
  if ((position + 1) % ratio == 0) {
    const std::int32_t entry = position / ratio;
    const std::int32_t per_block = layout_.entries_per_block(ratio);
    const std::int32_t block =
        batch.block_table[sequence * static_cast<std::size_t>(batch.max_blocks) +
                          static_cast<std::size_t>(entry / per_block)];
    if (block < 1) {
      fail_internal("step layout: sequence " + std::to_string(sequence) +
                    " has no block for entry " + std::to_string(entry));
    }
    part.pool_rows.push_back(block * per_block + entry % per_block);
    part.positions.push_back(entry * ratio);
  }
  if (ratio != 2) return;
  const std::int32_t ring = layout_.pair_ring_size();
  const auto state_row = [&](std::int32_t p) { return rows.state_slot * ring + p % ring; };
  if (position % 2 == 1) {
    const std::int32_t second = rows.first_row + row;
    if (row > 0) {
      part.pairs.push_back({second - 1, -1, second});
    } else {
      part.pairs.push_back({-1, state_row(position - 1), second});
    }
  }
  part.state_rows.push_back(row + ring < rows.rows ? -1 : state_row(position));
}

}  // namespace deepinfer
