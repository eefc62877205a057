// End to end on the tiny random checkpoint: text and ids in, tokens out.

#include "engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <random>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/safetensors.h"
#include "model/weights.h"
#include "text/engram_vocabulary.h"

namespace deepinfer {
namespace {

using ::testing::HasSubstr;

const std::filesystem::path kGolden = DEEPINFER_GOLDEN_DIR;

template <typename T>
std::vector<T> golden_values(const std::string& file, const std::string& name) {
  const SafetensorsFile source(kGolden / "tiny-random-expected" / (file + ".safetensors"));
  const TensorView tensor = source.tensor(name);
  std::vector<T> values(tensor.bytes() / sizeof(T));
  std::memcpy(values.data(), tensor.data, tensor.bytes());
  return values;
}

std::vector<TokenId> golden_ids(const std::string& file, const std::string& name) {
  const auto wide = golden_values<std::int64_t>(file, name);
  return {wide.begin(), wide.end()};
}

std::vector<TokenId> golden_prompt(int length) {
  return golden_ids("exact-len" + std::to_string(length), "input_ids");
}

/// The checkpoint, shared by all tests.
struct TinyRandom {
  Checkpoint checkpoint = Checkpoint::open(kGolden / "tiny-random");
  ModelWeights weights = load_weights(checkpoint);
  Tokenizer tokenizer = Tokenizer::load(checkpoint.tokenizer_directory(),
                                        checkpoint.config().tokenizer_compatibility);

  static const TinyRandom& get() {
    static const TinyRandom shared;
    return shared;
  }
};

struct EngineSetup {
  NumericsProfile numerics = NumericsProfile::kExact;
  int max_num_seqs = 16;
  int max_num_batched_tokens = 64;
  int max_logits_rows = 64;
  int max_model_len = 512;
  int num_blocks = 0;  ///< 0: plenty
  int threads = 1;
  bool chunked_prefill = true;
  bool reference = false;
  std::vector<TokenId> eos = {1};
  std::vector<TokenId> blacklist;
};

/// An engine of its own, with what it needs.
class TestEngine : public EngineSink {
 public:
  explicit TestEngine(const EngineSetup& setup)
      : setup_(setup),
        pool_(setup.threads),
        ops_(setup.reference ? make_reference_ops() : make_cpu_ops(pool_)),
        layout_(config(), CacheOptions{setup.numerics, 16, 0}),
        caches_(config(), layout_, blocks(), setup.max_num_seqs),
        model_(config(), TinyRandom::get().weights, layout_, *ops_,
               engram_token_map(TinyRandom::get().tokenizer),
               ModelOptions{setup.numerics, setup.max_num_batched_tokens}),
        engine_(model_, caches_, &TinyRandom::get().tokenizer, &pool_, engine_config()) {}

  static const ModelConfig& config() { return TinyRandom::get().checkpoint.config(); }
  Engine& engine() { return engine_; }

  RequestId submit(std::vector<TokenId> prompt, const SamplingParams& sampling) {
    EngineRequest request;
    request.prompt = std::move(prompt);
    request.sampling = sampling;
    request.seed = sampling.seq_seed.value_or(0);
    return engine_.submit(std::move(request));
  }

  /// Steps until nothing is left; every block and slot must be free then.
  void run() {
    int steps = 0;
    while (engine_.has_work()) {
      engine_.step(*this);
      ASSERT_LT(++steps, 20000);
    }
    EXPECT_TRUE(engine_.scheduler().idle());
    EXPECT_EQ(engine_.scheduler().blocks_available(), blocks());
    EXPECT_EQ(engine_.scheduler().slots_available(), setup_.max_num_seqs);
  }

  CompletionResult generate(std::vector<TokenId> prompt, const SamplingParams& sampling) {
    const RequestId id = submit(std::move(prompt), sampling);
    run();
    return results.at(id);
  }

  void on_token(RequestId id, StreamEvent&& event) override {
    EXPECT_FALSE(results.contains(id)) << "a token after the end";
    deltas[id] += event.text_delta;
    events[id].push_back(std::move(event));
  }
  void on_finished(RequestId id, CompletionResult&& result) override {
    EXPECT_FALSE(results.contains(id)) << "a second result";
    results.emplace(id, std::move(result));
  }
  void on_scored(RequestId id, ScoreResult&& result) override {
    EXPECT_TRUE(scores.emplace(id, std::move(result)).second);
  }

  std::map<RequestId, CompletionResult> results;
  std::map<RequestId, ScoreResult> scores;
  std::map<RequestId, std::vector<StreamEvent>> events;
  std::map<RequestId, std::string> deltas;

 private:
  int blocks() const {
    if (setup_.num_blocks > 0) return setup_.num_blocks;
    return setup_.max_num_seqs * ((setup_.max_model_len + 15) / 16);
  }
  EngineConfig engine_config() const {
    EngineConfig config;
    config.scheduler.max_num_seqs = setup_.max_num_seqs;
    config.scheduler.max_num_batched_tokens = setup_.max_num_batched_tokens;
    config.scheduler.max_logits_rows = setup_.max_logits_rows;
    config.scheduler.max_model_len = setup_.max_model_len;
    config.scheduler.tokens_per_block = 16;
    config.scheduler.num_blocks = blocks();
    config.scheduler.chunked_prefill = setup_.chunked_prefill;
    config.eos = setup_.eos;
    config.blacklist = setup_.blacklist;
    return config;
  }

  EngineSetup setup_;
  ThreadPool pool_;
  std::unique_ptr<Ops> ops_;
  CacheLayout layout_;
  CacheStore caches_;
  Model model_;
  Engine engine_;
};

SamplingParams greedy(int max_tokens) {
  SamplingParams sampling;
  sampling.temperature = 0.0;
  sampling.max_tokens = max_tokens;
  return sampling;
}

SamplingParams sampled(std::uint64_t seed, int max_tokens) {
  SamplingParams sampling;
  sampling.temperature = 0.8;
  sampling.top_p = 0.95;
  sampling.max_tokens = max_tokens;
  sampling.seq_seed = seed;
  sampling.ignore_eos = true;
  sampling.top_logprobs = 3;
  return sampling;
}

std::vector<TokenId> random_prompt(std::mt19937& random, int length) {
  std::vector<TokenId> prompt;
  for (int i = 0; i < length; ++i) prompt.push_back(static_cast<TokenId>(3 + random() % 500));
  return prompt;
}

std::vector<std::uint32_t> bits(const std::vector<float>& values) {
  std::vector<std::uint32_t> result;
  for (const float value : values) result.push_back(std::bit_cast<std::uint32_t>(value));
  return result;
}

void expect_same(const CompletionResult& a, const CompletionResult& b) {
  EXPECT_EQ(a.token_ids, b.token_ids);
  EXPECT_EQ(bits(a.token_logprobs), bits(b.token_logprobs));
  EXPECT_EQ(a.text, b.text);
  EXPECT_EQ(a.finish_reason, b.finish_reason);
  ASSERT_EQ(a.top_logprobs.size(), b.top_logprobs.size());
  for (std::size_t i = 0; i < a.top_logprobs.size(); ++i) {
    ASSERT_EQ(a.top_logprobs[i].size(), b.top_logprobs[i].size());
    for (std::size_t k = 0; k < a.top_logprobs[i].size(); ++k) {
      EXPECT_EQ(a.top_logprobs[i][k].token_id, b.top_logprobs[i][k].token_id);
      EXPECT_EQ(a.top_logprobs[i][k].logprob, b.top_logprobs[i][k].logprob);
    }
  }
}

// --- golden tokens
// --------------------------------------------------------------------------------

TEST(EngineGolden, GreedyTokensOfBothBackEnds) {
  for (const bool reference : {false, true}) {
    EngineSetup setup;
    setup.reference = reference;
    TestEngine engine(setup);
    std::map<int, RequestId> ids;
    for (const int length : {7, 63, 300}) {
      ids[length] = engine.submit(golden_prompt(length), greedy(32));
    }
    engine.run();  // all three together, the long prompt in chunks
    for (const auto& [length, id] : ids) {
      const CompletionResult& result = engine.results.at(id);
      EXPECT_EQ(result.token_ids,
                golden_ids("greedy-exact", "prompt" + std::to_string(length) + ".tokens"))
          << length << (reference ? " reference" : " cpu");
      EXPECT_EQ(result.finish_reason, "length");
      EXPECT_EQ(result.prompt_len, length);
    }
  }
}

TEST(EngineGolden, ScoresEqualTheLogSoftmaxOfTheLogits) {
  const std::vector<TokenId> prompt = golden_prompt(63);
  const auto logits = golden_values<float>("exact-len63", "logits");
  const auto log_sum = golden_values<float>("exact-len63", "logsumexp");
  EngineSetup setup;
  setup.max_num_batched_tokens = 20;
  setup.max_logits_rows = 17;
  TestEngine engine(setup);
  EngineRequest request;
  request.prompt = prompt;
  request.score_top_logprobs = 4;
  const RequestId id = engine.engine().submit(std::move(request));
  engine.run();
  const ScoreResult& score = engine.scores.at(id);
  ASSERT_EQ(score.token_logprobs.size(), prompt.size());
  EXPECT_TRUE(std::isnan(score.token_logprobs[0]));
  ASSERT_EQ(score.top_logprobs.size(), prompt.size());
  const std::size_t vocab = logits.size() / prompt.size();
  for (std::size_t i = 1; i < prompt.size(); ++i) {
    const float* row = logits.data() + (i - 1) * vocab;
    EXPECT_NEAR(score.token_logprobs[i], row[prompt[i]] - log_sum[i - 1], 4e-4);
    ASSERT_EQ(score.top_logprobs[i].size(), 4U);
    const auto best = std::max_element(row, row + vocab) - row;
    EXPECT_EQ(score.top_logprobs[i][0].token_id, best);
  }
}

// --- what else runs must not matter
// ------------------------------------------------------------------

struct Variant {
  std::string name;
  EngineSetup setup;
  int others = 0;
};

TEST(EngineInvariance, ResultsDependOnTheRequestAlone) {
  // 200 tokens: beyond the window of 32 and beyond index_topk entries; exact+cache exercises the
  // record formats.
  for (const NumericsProfile numerics : {NumericsProfile::kExact, NumericsProfile::kExactCache}) {
    std::mt19937 random(7);
    const std::vector<TokenId> prompt = random_prompt(random, 150);
    EngineSetup base;
    base.numerics = numerics;
    base.max_num_batched_tokens = 256;
    const CompletionResult alone = TestEngine(base).generate(prompt, sampled(99, 50));
    const CompletionResult alone_greedy = TestEngine(base).generate(prompt, greedy(50));
    ASSERT_EQ(alone.token_ids.size(), 50U);

    std::vector<Variant> variants;
    variants.push_back({"batch", base, 12});
    variants.push_back({"small steps", base, 3});
    variants.back().setup.max_num_batched_tokens = 17;
    variants.push_back({"tiny steps", base, 0});
    variants.back().setup.max_num_batched_tokens = 16;
    variants.push_back({"two threads", base, 5});
    variants.back().setup.threads = 2;
    variants.push_back({"three threads", base, 5});
    variants.back().setup.threads = 3;
    variants.push_back({"whole prompts", base, 4});
    variants.back().setup.chunked_prefill = false;
    for (const Variant& variant : variants) {
      SCOPED_TRACE(variant.name + " " + std::string(to_string(numerics)));
      TestEngine engine(variant.setup);
      std::vector<RequestId> before;
      for (int i = 0; i < variant.others; ++i) {
        engine.submit(random_prompt(random, 1 + static_cast<int>(random() % 100)),
                      sampled(random(), 1 + static_cast<int>(random() % 60)));
        if (i == 2) {
          for (int step = 0; step < 3; ++step) engine.engine().step(engine);
        }
      }
      const RequestId drawn = engine.submit(prompt, sampled(99, 50));
      const RequestId best = engine.submit(prompt, greedy(50));
      engine.run();
      expect_same(engine.results.at(drawn), alone);
      expect_same(engine.results.at(best), alone_greedy);
    }
  }
}

TEST(EngineInvariance, PreemptionDoesNotChangeResults) {
  std::mt19937 random(3);
  std::vector<std::vector<TokenId>> prompts;
  for (int i = 0; i < 6; ++i) prompts.push_back(random_prompt(random, 20 + 5 * i));
  EngineSetup roomy;
  roomy.max_model_len = 128;
  EngineSetup tight = roomy;
  tight.num_blocks = 12;
  TestEngine wide(roomy);
  TestEngine narrow(tight);
  std::vector<RequestId> ids;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    SamplingParams sampling = sampled(i, 60);
    sampling.prompt_logprobs = i % 2 == 0;
    ids.push_back(wide.submit(prompts[i], sampling));
    narrow.submit(prompts[i], sampling);
  }
  wide.run();
  narrow.run();
  EXPECT_EQ(wide.engine().counters().preemptions, 0U);
  EXPECT_GT(narrow.engine().counters().preemptions, 0U);
  for (const RequestId id : ids) {
    expect_same(narrow.results.at(id), wide.results.at(id));
    EXPECT_EQ(bits(narrow.results.at(id).prompt_logprobs),
              bits(wide.results.at(id).prompt_logprobs));
    EXPECT_EQ(narrow.deltas[id], wide.deltas[id]);
  }
}

TEST(EngineInvariance, SeedsGiveDifferentTokens) {
  TestEngine engine(EngineSetup{});
  const RequestId a = engine.submit(golden_prompt(63), sampled(1, 30));
  const RequestId b = engine.submit(golden_prompt(63), sampled(2, 30));
  engine.run();
  EXPECT_NE(engine.results.at(a).token_ids, engine.results.at(b).token_ids);
}

// --- stop rules
// -----------------------------------------------------------------------------------

class EngineStop : public ::testing::Test {
 protected:
  static std::vector<TokenId> expected() { return golden_ids("greedy-exact", "prompt7.tokens"); }
  static CompletionResult run(const SamplingParams& sampling,
                              const EngineSetup& setup = EngineSetup{}) {
    return TestEngine(setup).generate(golden_prompt(7), sampling);
  }
  static std::vector<TokenId> first(std::size_t count) {
    auto tokens = expected();
    tokens.resize(count);
    return tokens;
  }
  /// Index of the first token that differs from all before it, from `from` on.
  static std::size_t fresh_token(std::size_t from) {
    const auto tokens = expected();
    for (std::size_t i = from; i < tokens.size(); ++i) {
      if (std::find(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(i), tokens[i]) ==
          tokens.begin() + static_cast<std::ptrdiff_t>(i)) {
        return i;
      }
    }
    ADD_FAILURE() << "the golden tokens repeat";
    return 0;
  }
};

TEST_F(EngineStop, MaxTokensEndsWithLength) {
  for (const int count : {0, 1, 5}) {
    const CompletionResult result = run(greedy(count));
    EXPECT_EQ(result.token_ids, first(static_cast<std::size_t>(std::max(count, 1))));
    EXPECT_EQ(result.finish_reason, "length");
    EXPECT_FALSE(result.failed());
  }
}

TEST_F(EngineStop, EosEndsWithStopAndIsPartOfTheOutput) {
  const std::size_t at = fresh_token(4);
  EngineSetup setup;
  setup.eos = {1, expected()[at]};
  const CompletionResult result = run(greedy(32), setup);
  EXPECT_EQ(result.token_ids, first(at + 1));
  EXPECT_EQ(result.finish_reason, "stop");
  EXPECT_EQ(result.stop_token, expected()[at]);

  SamplingParams ignoring = greedy(32);
  ignoring.ignore_eos = true;
  EXPECT_EQ(run(ignoring, setup).token_ids, expected());
  // EOS and max_tokens at the same token: EOS is the reason.
  EXPECT_EQ(run(greedy(static_cast<int>(at) + 1), setup).finish_reason, "stop");
}

TEST_F(EngineStop, StopTokenIdsEndWithStop) {
  const std::size_t at = fresh_token(3);
  SamplingParams sampling = greedy(32);
  sampling.stop_token_ids = {expected()[at]};
  sampling.ignore_eos = true;  // doesn't concern them
  const CompletionResult result = run(sampling);
  EXPECT_EQ(result.token_ids, first(at + 1));
  EXPECT_EQ(result.finish_reason, "stop");
}

TEST_F(EngineStop, StopStringCutsTheTextAndKeepsTheTokens) {
  const std::string whole = run(greedy(32)).text;
  ASSERT_GT(whole.size(), 12U);
  // A string that lies across token borders, not at the beginning.
  const std::string stop = whole.substr(7, 4);
  const std::size_t place = whole.find(stop);
  SamplingParams sampling = greedy(32);
  sampling.stop = {"never in there", stop};
  TestEngine engine{EngineSetup{}};
  const RequestId id = engine.submit(golden_prompt(7), sampling);
  engine.run();
  const CompletionResult& result = engine.results.at(id);
  EXPECT_EQ(result.text, whole.substr(0, place));
  EXPECT_EQ(engine.deltas.at(id), result.text);
  EXPECT_EQ(result.finish_reason, "stop");
  EXPECT_EQ(result.stop_match, stop);
  EXPECT_LT(result.token_ids.size(), 32U);
  EXPECT_EQ(result.token_ids, first(result.token_ids.size()));
}

TEST_F(EngineStop, MaxModelLenEndsWithLength) {
  EngineSetup setup;
  setup.max_model_len = 12;
  const CompletionResult result = run(greedy(32), setup);
  EXPECT_EQ(result.finish_reason, "length");
  // The token that exceeds the length is given out, as in the official package.
  EXPECT_EQ(result.token_ids, first(6));
}

TEST_F(EngineStop, MinTokensBansEosAndStopIdsBefore) {
  const std::size_t at = fresh_token(4);
  EngineSetup setup;
  setup.eos = {expected()[at]};
  SamplingParams sampling = greedy(32);
  sampling.min_tokens = static_cast<std::int64_t>(at) + 3;
  const CompletionResult result = run(sampling, setup);
  EXPECT_GE(result.token_ids.size(), at + 3);
  EXPECT_EQ(
      std::count(result.token_ids.begin(),
                 result.token_ids.begin() + static_cast<std::ptrdiff_t>(at) + 3, expected()[at]),
      0);
  SamplingParams first_only = greedy(4);
  first_only.first_n_token_no_eos = 1;
  setup.eos = {expected()[0]};
  EXPECT_NE(run(first_only, setup).token_ids[0], expected()[0]);
}

// --- other parameters
// ------------------------------------------------------------------------------

TEST_F(EngineStop, MasksAndForcedTokens) {
  EngineSetup setup;
  setup.blacklist = {expected()[0]};
  EXPECT_NE(run(greedy(1), setup).token_ids[0], expected()[0]);

  SamplingParams allowed = greedy(4);
  allowed.allowed_token_ids = {{40, 41}};
  for (const TokenId token : run(allowed).token_ids) EXPECT_TRUE(token == 40 || token == 41);

  SamplingParams forced = greedy(4);
  forced.golden_token_ids = {-1, 77, 78};
  const CompletionResult result = run(forced);
  EXPECT_EQ(result.token_ids[0], expected()[0]);
  EXPECT_EQ(result.token_ids[1], 77);
  EXPECT_EQ(result.token_ids[2], 78);

  SamplingParams biased = greedy(1);
  biased.logit_bias = {{300, 1000.0}};
  EXPECT_EQ(run(biased).token_ids[0], 300);
}

TEST_F(EngineStop, BadWordsAreNeverCompleted) {
  TestEngine engine{EngineSetup{}};
  EngineRequest request;
  request.prompt = golden_prompt(7);
  request.sampling = greedy(8);
  request.bad_words = {{expected()[2], expected()[3]}, {expected()[0]}};
  const RequestId id = engine.engine().submit(std::move(request));
  engine.run();
  const auto& tokens = engine.results.at(id).token_ids;
  EXPECT_EQ(std::count(tokens.begin(), tokens.end(), expected()[0]), 0);
}

TEST_F(EngineStop, EventsDescribeEachToken) {
  TestEngine engine{EngineSetup{}};
  SamplingParams sampling = greedy(5);
  sampling.top_logprobs = 2;
  sampling.prompt_logprobs = true;
  const RequestId id = engine.submit(golden_prompt(7), sampling);
  engine.run();
  const auto& events = engine.events.at(id);
  const CompletionResult& result = engine.results.at(id);
  ASSERT_EQ(events.size(), 5U);
  for (std::size_t i = 0; i < events.size(); ++i) {
    const RequestOutput& output = events[i].output;
    EXPECT_EQ(output.token_id, result.token_ids[i]);
    EXPECT_EQ(output.token_logprobs, result.token_logprobs[i]);
    EXPECT_EQ(output.num_output_tokens, static_cast<int>(i) + 1);
    EXPECT_EQ(output.finished, i == 4);
    EXPECT_EQ(output.finish_reason, i == 4 ? "length" : "");
    EXPECT_EQ(output.prompt_logprobs.size(), i == 0 ? 6U : 0U);
    EXPECT_EQ(output.top_token_ids.size(), 2U);
    EXPECT_EQ(output.top_token_ids[0], result.token_ids[i]);
    EXPECT_EQ(output.prompt_len, 7);
  }
  EXPECT_EQ(result.prompt_logprobs.size(), 6U);
}

// --- bad requests
// ---------------------------------------------------------------------------------

TEST(EngineErrors, BadPromptsGetOneResultAndHarmNobody) {
  EngineSetup setup;
  setup.max_model_len = 100;
  TestEngine engine(setup);
  const RequestId good = engine.submit(golden_prompt(7), greedy(8));
  const RequestId invalid = engine.submit({3, 512, 4}, greedy(8));
  const RequestId negative = engine.submit({-1}, greedy(8));
  const RequestId too_long = engine.submit(golden_prompt(300), greedy(8));
  const RequestId empty = engine.submit({}, greedy(8));
  const RequestId other = engine.submit(golden_prompt(63), greedy(8));
  engine.run();
  ASSERT_EQ(engine.results.size(), 6U);
  for (const RequestId id : {invalid, negative}) {
    EXPECT_EQ(engine.results.at(id).finish_reason, "invalid_token");
    EXPECT_TRUE(engine.results.at(id).failed());
    EXPECT_EQ(engine.results.at(id).text, "");
  }
  EXPECT_THAT(engine.results.at(invalid).error, HasSubstr("512"));
  EXPECT_EQ(engine.results.at(too_long).finish_reason, "prompt_length_exceeded");
  EXPECT_EQ(engine.results.at(too_long).last_prompt_token, golden_prompt(300).back());
  EXPECT_EQ(engine.results.at(empty).finish_reason, "error");
  auto expected = golden_ids("greedy-exact", "prompt7.tokens");
  expected.resize(8);
  EXPECT_EQ(engine.results.at(good).token_ids, expected);
  expected = golden_ids("greedy-exact", "prompt63.tokens");
  expected.resize(8);
  EXPECT_EQ(engine.results.at(other).token_ids, expected);
}

TEST(EngineErrors, ARowWithoutTokensEndsOnlyItsRequest) {
  TestEngine engine{EngineSetup{}};
  SamplingParams impossible = greedy(8);
  impossible.allowed_token_ids = {{5}};
  impossible.logit_bias = {{5, -std::numeric_limits<double>::infinity()}};
  const RequestId bad = engine.submit(golden_prompt(7), impossible);
  const RequestId good = engine.submit(golden_prompt(7), greedy(8));
  engine.run();
  EXPECT_EQ(engine.results.at(bad).finish_reason, "error");
  EXPECT_TRUE(engine.results.at(bad).failed());
  EXPECT_EQ(engine.results.at(good).token_ids.size(), 8U);
}

TEST(EngineErrors, ParametersAreRefusedAtSubmit) {
  TestEngine engine{EngineSetup{}};
  SamplingParams sampling = greedy(4);
  sampling.stop_token_ids = {512};
  try {
    engine.submit(golden_prompt(7), sampling);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_THAT(error.what(), HasSubstr("stop_token_ids"));
  }
  EXPECT_FALSE(engine.engine().has_work());  // nothing stays queued
}

TEST(EngineErrors, AbortKeepsTheTokensSoFar) {
  TestEngine engine{EngineSetup{}};
  const RequestId id = engine.submit(golden_prompt(7), greedy(32));
  const RequestId other = engine.submit(golden_prompt(63), greedy(32));
  for (int step = 0; step < 5; ++step) engine.engine().step(engine);
  engine.engine().abort(id, engine);
  engine.engine().abort(id, engine);
  const CompletionResult& result = engine.results.at(id);
  EXPECT_EQ(result.finish_reason, "abort");
  EXPECT_GT(result.token_ids.size(), 0U);
  EXPECT_LT(result.token_ids.size(), 32U);
  engine.run();
  EXPECT_EQ(engine.results.at(other).token_ids, golden_ids("greedy-exact", "prompt63.tokens"));
}

TEST(EngineErrors, ManyRandomRequestsLeaveNothingBehind) {
  std::mt19937 random(11);
  EngineSetup setup;
  setup.max_num_seqs = 5;
  setup.max_num_batched_tokens = 40;
  setup.max_model_len = 96;
  setup.num_blocks = 14;
  TestEngine engine(setup);
  std::vector<RequestId> ids;
  for (int i = 0; i < 120; ++i) {
    const int kind = static_cast<int>(random() % 10);
    if (kind == 0) {
      ids.push_back(engine.submit({3, 9999}, greedy(4)));
    } else if (kind == 1) {
      ids.push_back(engine.submit(random_prompt(random, 97), greedy(4)));
    } else {
      ids.push_back(engine.submit(random_prompt(random, 1 + static_cast<int>(random() % 90)),
                                  sampled(random(), 1 + static_cast<int>(random() % 40))));
    }
    if (random() % 3 == 0) engine.engine().step(engine);
    if (random() % 8 == 0) engine.engine().abort(ids[random() % ids.size()], engine);
  }
  engine.run();
  EXPECT_EQ(engine.results.size(), ids.size());
  EXPECT_GT(engine.engine().counters().preemptions, 0U);
}

}  // namespace
}  // namespace deepinfer
