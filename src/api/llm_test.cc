#include "deepinfer/llm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <stdexcept>
#include <thread>

#include "base/error.h"

namespace deepinfer {
namespace {

using ::testing::HasSubstr;

EngineOptions tiny_options() {
  EngineOptions options;
  options.model = std::string(DEEPINFER_GOLDEN_DIR) + "/tiny-random";
  options.num_threads = 1;
  options.max_model_len = 256;
  options.max_num_seqs = 8;
  options.max_num_batched_tokens = 64;
  options.numerics = "exact";
  options.device = "cpu";
  return options;
}

LLM& shared() {
  static LLM llm(tiny_options());
  return llm;
}

SamplingParams greedy(int max_tokens) {
  SamplingParams sampling;
  sampling.temperature = 0.0;
  sampling.max_tokens = max_tokens;
  sampling.ignore_eos = true;
  return sampling;
}

template <typename Body>
std::string error_of(Body&& body, ErrorKind kind) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

TEST(Llm, ResultsComeInInputOrderWhateverTheirFate) {
  const std::vector<Prompt> prompts = {"one",
                                       std::vector<std::int32_t>{3, 4, 99999},
                                       std::vector<std::int32_t>(300, 5),
                                       "\xff\xfe",
                                       std::vector<std::int32_t>{},
                                       "two"};
  const auto results = shared().generate(prompts, {greedy(5)});
  ASSERT_EQ(results.size(), prompts.size());
  for (std::size_t i = 0; i < results.size(); ++i) EXPECT_EQ(results[i].index, i);
  EXPECT_EQ(results[0].finish_reason, "length");
  EXPECT_EQ(results[1].finish_reason, "invalid_token");
  EXPECT_EQ(results[2].finish_reason, "prompt_length_exceeded");
  EXPECT_EQ(results[3].finish_reason, "error");
  EXPECT_THAT(results[3].error, HasSubstr("UTF-8"));
  EXPECT_EQ(results[4].finish_reason, "error");
  EXPECT_EQ(results[5].token_ids.size(), 5U);
  for (const std::size_t bad : {1U, 2U, 3U, 4U}) {
    EXPECT_TRUE(results[bad].failed());
    EXPECT_EQ(results[bad].text, "");
  }
  const auto alone = shared().generate({"two"}, {greedy(5)});
  EXPECT_EQ(alone[0].token_ids, results[5].token_ids);
}

TEST(Llm, StrictRaisesBeforeAnythingRuns) {
  CallOptions call;
  call.strict = true;
  const auto steps = shared().stats().steps;
  const std::string message = error_of(
      [&] { shared().generate({"fine", std::vector<std::int32_t>{99999}}, {greedy(5)}, call); },
      ErrorKind::kInvalidArgument);
  EXPECT_THAT(message, HasSubstr("99999"));
  EXPECT_EQ(shared().stats().steps, steps);
}

TEST(Llm, CallsThatMakeNoSenseThrow) {
  error_of([] { shared().generate({"a", "b", "c"}, {greedy(1), greedy(2)}); },
           ErrorKind::kInvalidArgument);
  SamplingParams bad = greedy(1);
  bad.top_p = 2.0;
  const std::string message =
      error_of([&] { shared().generate({"a"}, {bad}); }, ErrorKind::kInvalidArgument);
  EXPECT_THAT(message, HasSubstr("top_p"));
  EXPECT_TRUE(shared().generate({}).empty());
}

TEST(Llm, SamplesUseConsecutiveSeeds) {
  SamplingParams sampling;
  sampling.max_tokens = 12;
  sampling.ignore_eos = true;
  sampling.seq_seed = 100;
  sampling.n = 3;
  const auto results = shared().generate({"some text", "another"}, {sampling});
  ASSERT_EQ(results.size(), 6U);
  for (std::size_t i = 0; i < results.size(); ++i) {
    EXPECT_EQ(results[i].index, i / 3);
    EXPECT_EQ(results[i].sample, static_cast<int>(i % 3));
    SamplingParams single = sampling;
    single.n = 1;
    single.seq_seed = 100 + i % 3;
    const auto alone = shared().generate({i < 3 ? "some text" : "another"}, {single});
    EXPECT_EQ(alone[0].token_ids, results[i].token_ids);
  }
  EXPECT_NE(results[0].token_ids, results[1].token_ids);
}

TEST(Llm, StreamsEveryTokenAndTheSameText) {
  std::map<std::size_t, std::string> texts;
  std::map<std::size_t, std::vector<std::int32_t>> tokens;
  int reports = 0;
  CallOptions call;
  call.on_token = [&](const StreamEvent& event) {
    texts[event.index] += event.text_delta;
    if (event.output.finish_reason != "invalid_token") {
      tokens[event.index].push_back(event.output.token_id);
    }
  };
  call.on_progress = [&](const Progress& progress) {
    ++reports;
    EXPECT_EQ(progress.total, 3U);
  };
  const auto results = shared().generate({"first prompt", std::vector<std::int32_t>{-1}, "second"},
                                         {greedy(20)}, call);
  for (const CompletionResult& result : results) {
    EXPECT_EQ(texts[result.index], result.text);
    EXPECT_EQ(tokens[result.index], result.token_ids);
    const auto outputs = to_request_outputs(result);
    EXPECT_EQ(outputs.size(), std::max<std::size_t>(1, result.token_ids.size()));
    EXPECT_TRUE(outputs.back().finished);
    EXPECT_EQ(outputs.back().finish_reason, result.finish_reason);
  }
  EXPECT_GT(reports, 0);
}

TEST(Llm, CancellingKeepsTokensAndLeavesTheEngineUsable) {
  int steps = 0;
  CallOptions call;
  call.cancelled = [&] { return ++steps > 6; };
  const auto results = shared().generate({"a", "b"}, {greedy(100)}, call);
  ASSERT_EQ(results.size(), 2U);
  for (const CompletionResult& result : results) {
    EXPECT_EQ(result.finish_reason, "abort");
    EXPECT_GT(result.token_ids.size(), 0U);
    EXPECT_LT(result.token_ids.size(), 100U);
  }
  EXPECT_EQ(shared().generate({"a"}, {greedy(4)})[0].finish_reason, "length");
}

TEST(Llm, AnExceptionOfACallbackComesOutAndLeavesTheEngineUsable) {
  CallOptions call;
  int tokens = 0;
  call.on_token = [&](const StreamEvent&) {
    if (++tokens == 3) throw std::runtime_error("reader is gone");
  };
  EXPECT_THROW(shared().generate({"a", "b"}, {greedy(50)}, call), std::runtime_error);
  EXPECT_EQ(shared().generate({"a"}, {greedy(4)})[0].finish_reason, "length");
}

TEST(Llm, CallsFromSeveralThreadsAreQueued) {
  const auto expected = shared().generate({"hello"}, {greedy(8)})[0].token_ids;
  std::vector<std::thread> threads;
  std::vector<std::vector<std::int32_t>> tokens(4);
  for (auto& slot : tokens) {
    threads.emplace_back(
        [&slot] { slot = shared().generate({"hello"}, {greedy(8)})[0].token_ids; });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& slot : tokens) EXPECT_EQ(slot, expected);
}

TEST(Llm, TextGetsOneBosUnlessTheCallSaysOtherwise) {
  ASSERT_TRUE(shared().info().bos_token_id.has_value());
  const std::int32_t bos = *shared().info().bos_token_id;
  const std::string spelling = shared().decode({bos});
  const auto with = shared().encode("text", true);
  EXPECT_EQ(with.front(), bos);
  EXPECT_EQ(shared().encode("text"), with);
  EXPECT_EQ(shared().generate({"text"}, {greedy(2)})[0].prompt_len, static_cast<int>(with.size()));
  EXPECT_EQ(shared().encode(spelling + "text", true), with);  // not doubled
  const auto without = shared().encode("text", false);
  EXPECT_NE(without.front(), bos);
  CallOptions call;
  call.add_bos = false;
  EXPECT_EQ(shared().generate({"text"}, {greedy(2)}, call)[0].prompt_len,
            static_cast<int>(without.size()));
  call.add_bos = true;
  EXPECT_EQ(shared().generate({without}, {greedy(2)}, call)[0].prompt_len,
            static_cast<int>(without.size()));  // ids are used as they are
}

TEST(Llm, AStreamThatFailsMidwayEndsWithItsReason) {
  // Only token 7 is allowed, until the bad word, which starts with it, forbids that too.
  SamplingParams cornered = greedy(8);
  cornered.allowed_token_ids = {7};
  cornered.bad_words = {shared().decode({7, 7, 7})};
  std::map<std::size_t, std::vector<RequestOutput>> streams;
  CallOptions call;
  call.on_token = [&](const StreamEvent& event) { streams[event.index].push_back(event.output); };
  const auto results =
      shared().generate({std::vector<std::int32_t>{20, 30}, std::vector<std::int32_t>{20, 30}},
                        {cornered, greedy(4)}, call);
  ASSERT_EQ(results[0].finish_reason, "error");
  ASSERT_FALSE(results[0].token_ids.empty());
  ASSERT_EQ(streams[0].size(), results[0].token_ids.size() + 1);
  EXPECT_TRUE(streams[0].back().finished);
  EXPECT_EQ(streams[0].back().finish_reason, "error");
  EXPECT_EQ(streams[0].back().token_id, 0);
  EXPECT_EQ(streams[1].size(), results[1].token_ids.size());
  EXPECT_TRUE(streams[1].back().finished);
}

TEST(Llm, ScoresReturnOneEntryPerInput) {
  const std::vector<std::int32_t> ids = {10, 20, 30, 40};
  const auto results =
      shared().score({ids, std::vector<std::int32_t>{7}, std::vector<std::int32_t>{512}}, 3);
  ASSERT_EQ(results.size(), 3U);
  EXPECT_EQ(results[0].token_ids, ids);
  ASSERT_EQ(results[0].token_logprobs.size(), 4U);
  EXPECT_TRUE(std::isnan(results[0].token_logprobs[0]));
  EXPECT_LT(results[0].total_logprob(), 0.0);
  EXPECT_EQ(results[0].top_logprobs[1].size(), 3U);
  EXPECT_EQ(results[1].token_logprobs.size(), 1U);
  EXPECT_FALSE(results[1].failed());
  EXPECT_EQ(results[2].finish_reason, "invalid_token");
}

TEST(Llm, PromptLogprobsEqualScores) {
  const std::vector<std::int32_t> ids = {10, 20, 30, 40, 50};
  SamplingParams sampling = greedy(1);
  sampling.prompt_logprobs = true;
  sampling.temperature = 0.3;  // doesn't matter: they are raw
  const auto result = shared().generate({ids}, {sampling})[0];
  const auto score = shared().score({ids})[0];
  ASSERT_EQ(result.prompt_logprobs.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(result.prompt_logprobs[i], score.token_logprobs[i + 1]);
  }
}

TEST(Llm, BadWordsAreNeverCompleted) {
  // The first word that is a single token both ways of writing, among those greedy decoding makes.
  const auto free = shared().generate({"prompt"}, {greedy(30)})[0];
  std::int32_t token = -1;
  for (const std::int32_t id : free.token_ids) {
    if (shared().encode(shared().decode({id}), false, false) == std::vector<std::int32_t>{id}) {
      token = id;
      break;
    }
  }
  ASSERT_GE(token, 0);
  SamplingParams sampling = greedy(30);
  sampling.bad_words = {shared().decode({token})};
  const auto banned = shared().generate({"prompt"}, {sampling})[0];
  EXPECT_EQ(std::count(banned.token_ids.begin(), banned.token_ids.end(), token), 0);
}

TEST(Llm, SeedOfTheEngineMakesRunsRepeatable) {
  EngineOptions options = tiny_options();
  options.seed = 5;
  SamplingParams sampling;
  sampling.max_tokens = 8;
  LLM first(options);
  LLM second(options);
  const auto a = first.generate({"x", "x"}, {sampling});
  const auto b = second.generate({"x", "x"}, {sampling});
  EXPECT_EQ(a[0].token_ids, b[0].token_ids);
  EXPECT_EQ(a[1].token_ids, b[1].token_ids);
  EXPECT_NE(a[0].seq_seed, a[1].seq_seed);
}

TEST(LlmOptions, ADeeplyNestedGenerationConfigIsRefused) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(::testing::TempDir()) / "deeply_nested_generation_config";
  fs::remove_all(folder);
  fs::create_directories(folder);
  for (const auto& entry : fs::directory_iterator(DEEPINFER_GOLDEN_DIR "/tiny-random")) {
    fs::create_symlink(entry.path(), folder / entry.path().filename());
  }
  std::ofstream(folder / "generation_config.json")
      << "{\"a\":" << std::string(200000, '[') << std::string(200000, ']') << "}";
  EngineOptions options = tiny_options();
  options.model = folder.string();
  EXPECT_THAT(error_of([&] { const LLM llm(options); }, ErrorKind::kCheckpoint),
              HasSubstr("generation_config.json: nested deeper than 256"));
  fs::remove_all(folder);
}

TEST(LlmOptions, ImpossibleOnesAreRefusedByName) {
  const auto message = [](ErrorKind kind, auto&& change) {
    EngineOptions options = tiny_options();
    change(options);
    return error_of([&] { const LLM llm(options); }, kind);
  };
  const auto invalid = ErrorKind::kInvalidArgument;
  EXPECT_THAT(message(invalid, [](auto& o) { o.device = "tpu"; }), HasSubstr("tpu"));
  EXPECT_THAT(message(ErrorKind::kUnsupported, [](auto& o) { o.device = "nvidia"; }),
              HasSubstr("nvidia"));
  EXPECT_THAT(message(ErrorKind::kUnsupported, [](auto& o) { o.device = "ascend"; }),
              HasSubstr("ascend"));
  EXPECT_THAT(message(invalid, [](auto& o) { o.numerics = "best"; }), HasSubstr("numerics"));
  EXPECT_THAT(message(ErrorKind::kUnsupported, [](auto& o) { o.numerics = "production"; }),
              HasSubstr("production"));
  EXPECT_THAT(message(invalid, [](auto& o) { o.max_model_len = 1 << 30; }),
              HasSubstr("max_model_len"));
  EXPECT_THAT(message(invalid, [](auto& o) { o.max_num_seqs = 0; }), HasSubstr("max_num_seqs"));
  EXPECT_THAT(message(invalid, [](auto& o) { o.max_num_batched_tokens = 4; }),
              HasSubstr("max_num_batched_tokens"));
  EXPECT_THAT(message(invalid, [](auto& o) { o.chunked_prefill = false; }),
              HasSubstr("chunked_prefill"));
  EXPECT_THAT(message(invalid, [](auto& o) { o.tokens_per_block = 7; }),
              HasSubstr("tokens_per_block"));
  EXPECT_THAT(message(invalid, [](auto& o) { o.num_threads = 0; }), HasSubstr("num_threads"));
  EXPECT_THAT(message(ErrorKind::kOutOfMemory, [](auto& o) { o.cache_memory = 1000; }),
              HasSubstr("too small"));
  EXPECT_THAT(message(ErrorKind::kOutOfMemory, [](auto& o) { o.max_memory = 1000; }),
              HasSubstr("max_memory"));
  message(ErrorKind::kCheckpoint, [](auto& o) { o.model = "/nonexistent/model"; });
}

TEST(LlmOptions, DefaultsAndInfo) {
  EngineOptions options = tiny_options();
  options.max_model_len = 0;
  options.max_num_batched_tokens = 0;
  options.numerics.reset();
  const LLM llm(options);
  EXPECT_EQ(llm.info().device, "cpu");
  EXPECT_EQ(llm.info().max_model_len, std::min(4096, llm.info().max_position_embeddings));
  EXPECT_EQ(llm.info().max_num_batched_tokens, 2048);
  EXPECT_EQ(llm.info().numerics, "exact+cache");
  EXPECT_GT(llm.info().cache_bytes, 0);
  options.auto_max_model_len = true;
  EXPECT_EQ(LLM(options).info().max_model_len, llm.info().max_position_embeddings);
}

TEST(LlmChat, BadConversationsFailAlone) {
  const auto results = shared().chat({"not json", R"({"messages": []})"});
  ASSERT_EQ(results.size(), 2U);
  for (const ChatResult& result : results) {
    EXPECT_TRUE(result.failed());
    EXPECT_EQ(result.finish_reason, "error");
  }
}

/// The bundled checkpoint: it has the special tokens of the chat format.
LLM& bundled() {
  static LLM llm([] {
    EngineOptions options = tiny_options();
    options.model = std::string(DEEPINFER_MODELS_DIR) + "/tiny";
    options.max_model_len = 512;
    return options;
  }());
  return llm;
}

TEST(LlmChat, AnswersAndStreamsTheSame) {
  const std::string request =
      R"({"messages": [{"role": "user", "content": "Say hello."}], "max_tokens": 40, "seed": 3,
          "thinking": {"type": "disabled"}})";
  std::map<std::size_t, std::string> content;
  std::map<std::size_t, std::string> reasoning;
  CallOptions call;
  call.on_delta = [&](const ChatDelta& delta) {
    (delta.kind == ChatDelta::Kind::kReasoning ? reasoning : content)[delta.index] += delta.text;
  };
  const auto results = bundled().chat({request, "{}", request}, {}, call);
  ASSERT_EQ(results.size(), 3U);
  EXPECT_TRUE(results[1].failed());
  EXPECT_FALSE(results[0].failed()) << results[0].error;
  EXPECT_EQ(results[0].token_ids, results[2].token_ids);
  EXPECT_EQ(results[0].usage.completion_tokens, static_cast<int>(results[0].token_ids.size()));
  EXPECT_EQ(results[0].usage.prompt_tokens,
            static_cast<int>(bundled().render(request).token_ids.size()));
  for (const std::size_t i : {0U, 2U}) {
    EXPECT_EQ(content[i], results[i].content);
    EXPECT_EQ(reasoning[i], results[i].reasoning_content);
  }
  EXPECT_EQ(results[0].content.find("end▁of▁sentence"), std::string::npos);
}

TEST(LlmChat, StopStringsEndTheAnswer) {
  const auto whole = bundled().chat(
      {R"({"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 60, "temperature": 0,
           "ignore_eos": true, "thinking": {"type": "disabled"}})"});
  ASSERT_GT(whole[0].content.size(), 12U);
  std::size_t at = 6;  // not inside a character
  while (at + 3 < whole[0].content.size() &&
         ((whole[0].content[at] & 0xC0) == 0x80 || (whole[0].content[at + 3] & 0xC0) == 0x80)) {
    ++at;
  }
  SamplingParams sampling;
  sampling.temperature = 0.0;
  sampling.max_tokens = 60;
  sampling.ignore_eos = true;
  sampling.stop = {whole[0].content.substr(at, 3)};
  ChatOptions chat;
  chat.sampling = {sampling};
  const auto cut = bundled().chat(
      {R"({"messages": [{"role": "user", "content": "Hello"}], "thinking": {"type": "disabled"}})"},
      chat);
  EXPECT_EQ(cut[0].content, whole[0].content.substr(0, whole[0].content.find(sampling.stop[0])));
  EXPECT_EQ(cut[0].finish_reason, "stop");
  EXPECT_FALSE(cut[0].failed());
  EXPECT_LT(cut[0].token_ids.size(), whole[0].token_ids.size());
}

TEST(LlmChat, WhatThisVersionLacksIsRefusedClearly) {
  const auto results = bundled().chat({R"({"messages": [{"role": "user", "content": "json please"}],
           "response_format": {"type": "json_object"}})"});
  EXPECT_TRUE(results[0].failed());
  EXPECT_THAT(results[0].error, HasSubstr("structured outputs"));
}

TEST(LlmChat, APromptOverTheLimitKeepsItsReason) {
  const std::string text(4000, 'x');
  const auto results = bundled().chat(
      {R"({"messages": [{"role": "user", "content": ")" + text + R"("}], "max_tokens": 8})"});
  ASSERT_EQ(results.size(), 1U);
  EXPECT_EQ(results[0].finish_reason, "prompt_length_exceeded");
  EXPECT_TRUE(results[0].failed());
  EXPECT_EQ(results[0].content, "");
}

TEST(LlmChat, ParseTakesTextApart) {
  const ChatResult result = bundled().parse("thoughts</think>answer", true);
  EXPECT_EQ(result.reasoning_content, "thoughts");
  EXPECT_EQ(result.content, "answer");
}

}  // namespace
}  // namespace deepinfer
