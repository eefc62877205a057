"""The first example: complete prompts and answer a question with the bundled checkpoint.

python examples/offline_inference.py [MODEL]

MODEL is a folder, `tiny`, or a name on the Hugging Face hub.
"""

import sys

from deepinfer import LLM, SamplingParams


def main() -> None:
    model = sys.argv[1] if len(sys.argv) > 1 else "tiny"
    prompts = [
        "The main purpose of a file system is",
        "To compile the program,",
        "A regular expression is",
    ]
    greedy = SamplingParams(temperature=0, max_tokens=32)
    with LLM(model) as llm:
        texts = llm.generate(prompts, greedy, skip_special_tokens=True, use_tqdm=False)
        for prompt, text in zip(prompts, texts, strict=True):
            print(f"Prompt: {prompt}\nText:   {text}\n")

        question = [{"role": "user", "content": "What is 17 + 25?"}]
        greedy.max_tokens = 64
        answer = llm.chat(question, greedy, thinking=False)[0]
        print(f"Answer: {answer.content}")


if __name__ == "__main__":
    main()
