// The first example: complete prompts and answer a question with the bundled checkpoint.
//
//   build/release/examples/offline_inference [MODEL]
//
// MODEL is a directory, `tiny`, or a name that the Hugging Face cache has.

#include <cstddef>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "deepinfer/deepinfer.h"

int main(int argument_count, char** arguments) {
  try {
    deepinfer::EngineOptions options;
    options.model = argument_count > 1 ? arguments[1] : "tiny";
    deepinfer::LLM llm(options);

    const std::vector<deepinfer::Prompt> prompts = {
        "The main purpose of a file system is",
        "To compile the program,",
        "A regular expression is",
    };
    deepinfer::SamplingParams params;
    params.temperature = 0.0;
    params.max_tokens = 32;
    const auto results = llm.generate(prompts, {params});
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      std::printf("Prompt: %s\nText:   %s\n\n", prompts[i].text()->c_str(),
                  results[i].text_skip_special.c_str());
    }

    const std::string request = R"({
      "messages": [{"role": "user", "content": "What is 17 + 25?"}],
      "thinking": {"type": "disabled"}, "temperature": 0, "max_tokens": 64
    })";
    const auto answers = llm.chat({request});
    std::printf("Answer: %s\n", answers[0].content.c_str());
    return answers[0].failed() ? 1 : 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "offline_inference: %s\n", error.what());
    return 1;
  }
}
