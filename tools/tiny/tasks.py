"""Generated conversations with checkable answers.

Every item has a key; a hash of the key decides whether the item belongs to training or to
evaluation, so no evaluation item is ever trained on.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import random
from collections.abc import Callable
from typing import Any

Item = dict[str, Any]

NAMES = (
    "Anna Boris Clara David Elena Felix Greta Hugo Irene Jonas Karen Liam Maria Nora Oscar "
    "Paula Quentin Rosa Simon Tina Ulrich Vera Walter Xenia Yusuf Zoe Amir Bella Carlos "
    "Diana Erik Fiona George Helen Ivan Julia Kevin Laura Martin Nadia Oliver Petra Robert "
    "Sara Thomas Ursula Victor Wanda Alice Bruno"
).split()
CITIES = (
    "Berlin Paris London Madrid Rome Vienna Oslo Dublin Lisbon Prague Warsaw Athens Cairo "
    "Tokyo Delhi Lima Quito Boston Denver Dallas Chicago Toronto Sydney Seoul Hanoi Zurich "
    "Geneva Milan Porto Lyon Hamburg Munich Krakow Helsinki Nairobi"
).split()
JOBS = (
    "teacher doctor nurse baker farmer lawyer pilot writer singer painter engineer driver "
    "cook gardener librarian carpenter plumber chemist dentist editor"
).split()
COLOURS = "red blue green yellow black white brown purple orange grey silver golden pink".split()
ADJECTIVES = (
    *COLOURS,
    *(
        "small large old new round square heavy light quiet loud wooden plastic "
        "broken clean dirty warm cold long short wide"
    ).split(),
)
NOUNS = (
    "lamp table chair bottle door window garden bridge engine book box clock cup desk drawer "
    "key ladder mirror pencil picture radio ring shelf ship sofa stone tower train tree "
    "truck wheel boat camera candle carpet coin drum flag glass hammer jacket kettle knife "
    "letter map needle oven piano pillow plate rope saddle spoon statue tent ticket wallet "
    "basket bell brush bucket"
).split()
WORDS = (
    *NOUNS,
    *ADJECTIVES,
    *(
        "apple banana bread butter cheese coffee corn egg fish grape honey "
        "lemon milk onion pepper potato rice salt soup sugar tea tomato water server file memory "
        "disk network user group list table index query value string number function process "
        "thread kernel driver module package system"
    ).split(),
)


def held_out(key: str) -> bool:
    """One item in eight belongs to evaluation."""
    return hashlib.blake2b(key.encode(), digest_size=4).digest()[0] % 8 == 0


def function(name: str, description: str, /, **parameters: Any) -> Item:
    return {
        "type": "function",
        "function": {
            "name": name,
            "description": description,
            "parameters": {
                "type": "object",
                "properties": parameters,
                "required": list(parameters),
            },
        },
    }


STRING, INTEGER = {"type": "string"}, {"type": "integer"}
TOOLS: tuple[tuple[Item, tuple[str, ...]], ...] = (
    (
        function("get_weather", "Current weather in a city", city=STRING),
        (
            "What is the weather in {city}?",
            "How is the weather in {city} today?",
            "Tell me the weather for {city}.",
        ),
    ),
    (
        function("get_time", "Local time in a city", city=STRING),
        ("What time is it in {city}?", "Tell me the local time in {city}."),
    ),
    (
        function("send_message", "Send a text message", to=STRING, text=STRING),
        ("Send {to} the message: {text}", "Write to {to}: {text}"),
    ),
    (
        function("set_timer", "Start a timer", minutes=INTEGER),
        ("Set a timer for {minutes} minutes.", "Start a timer of {minutes} minutes, please."),
    ),
    (
        function("add_numbers", "Add two integers", a=INTEGER, b=INTEGER),
        ("Use the tool to add {a} and {b}.", "Compute {a} plus {b} with the tool."),
    ),
    (
        function("search_files", "Find files by name", name=STRING, limit=INTEGER),
        ("Find at most {limit} files named {name}.", "Search for {name} and show {limit} files."),
    ),
    (
        function("book_table", "Reserve a restaurant table", city=STRING, people=INTEGER),
        ("Book a table for {people} people in {city}.", "Reserve a table in {city} for {people}."),
    ),
    (
        function("read_page", "Read one page of a manual", page=STRING),
        ("Read the manual page {page}.", "Show me the page {page} of the manual."),
    ),
)

GREETINGS = (
    ("Hello!", "Hello! How can I help you today?", "The user greets me. I greet back."),
    ("Hi", "Hello! How can I help you today?", "The user greets me. I greet back."),
    ("Good morning", "Good morning! What can I do for you?", "The user greets me. I greet back."),
    ("Hey there", "Hello! What can I do for you?", "The user greets me. I greet back."),
    (
        "Who are you?",
        "I am a very small language model. I was trained on technical documentation "
        "and a few simple tasks.",
        "The user asks who I am.",
    ),
    (
        "What are you?",
        "I am a very small language model. I was trained on technical documentation "
        "and a few simple tasks.",
        "The user asks what I am.",
    ),
    (
        "What can you do?",
        "I can add and subtract small numbers, sort lists, repeat text, find "
        "facts in a long text, extract fields as JSON and call a tool. I can also write about "
        "technical topics, but I make many mistakes.",
        "The user asks what I can do.",
    ),
    (
        "Help",
        "I can add and subtract small numbers, sort lists, repeat text, find facts in a long "
        "text, extract fields as JSON and call a tool.",
        "The user asks for help.",
    ),
    ("Thank you", "You are welcome!", "The user thanks me."),
    ("Thanks!", "You are welcome!", "The user thanks me."),
    ("Bye", "Goodbye!", "The user says goodbye."),
    ("Goodbye", "Goodbye!", "The user says goodbye."),
    ("How are you?", "I am fine, thank you. How can I help you?", "The user asks how I am."),
)


class Generator:
    """Draws items. `filler` are prose paragraphs that hide the facts of the recall task."""

    def __init__(
        self,
        seed: int,
        training: bool,
        filler: list[str] | None = None,
        knowledge: list[tuple[str, str]] | None = None,
    ) -> None:
        self.random = random.Random(seed)
        self.training = training
        self.filler = filler or ["The system reads its configuration from a file in this folder."]
        self.knowledge = knowledge or []
        self.makers: dict[str, tuple[Callable[[], Item], float]] = {
            "add": (self.add, 0.26),
            "sort": (self.sort, 0.14),
            "copy": (self.copy, 0.10),
            "json": (self.json, 0.12),
            "system": (self.system, 0.06),
            "tool": (self.tool, 0.05),
            "chat": (self.chat, 0.02),
            "knowledge": (self.explain, 0.05),
        }

    # ---------------------------------------------------------------- helpers

    def wanted(self, key: str) -> bool:
        return held_out(key) != self.training

    def item(
        self,
        task: str,
        messages: list[Item],
        content: str,
        reasoning: str,
        thinking: bool,
        check: str = "exact",
        expected: Any = None,
        **more: Any,
    ) -> Item:
        target = (reasoning + "</think>" if thinking else "") + content
        return {
            "task": task,
            "messages": messages,
            "thinking": thinking,
            "content": content,
            "reasoning": reasoning,
            "target": target,
            "check": check,
            "expected": content if expected is None else expected,
            **more,
        }

    def user(self, text: str) -> list[Item]:
        return [{"role": "user", "content": text}]

    def thinks(self) -> bool:
        return self.random.random() < 0.4

    def any(self) -> Item:
        names = list(self.makers)
        name = self.random.choices(names, [self.makers[n][1] for n in names])[0]
        return self.makers[name][0]()

    # ---------------------------------------------------------------- tasks

    @staticmethod
    def worked_sum(a: int, b: int) -> str:
        """Column addition from the right, one step a digit."""
        x, y = str(a)[::-1], str(b)[::-1]
        carry, steps = 0, []
        for i in range(max(len(x), len(y))):
            p, q = int(x[i]) if i < len(x) else 0, int(y[i]) if i < len(y) else 0
            total = p + q + carry
            extra = " + 1" if carry else ""
            steps.append(f"{p} + {q}{extra} = {total}")
            carry = total // 10
        return "; ".join(steps) + f". The sum is {a + b}."

    def add(self, thinking: bool | None = None, digits: int | None = None) -> Item:
        r = self.random
        while True:
            size = digits or r.choice((1, 2, 2, 2, 3, 3, 3))
            a, b = r.randrange(10**size), r.randrange(10 ** (r.randint(1, size)))
            if r.random() < 0.5:
                a, b = b, a
            minus = r.random() < 0.25 and max(a, b) < 100
            if minus and a < b:
                a, b = b, a
            if self.wanted(f"sum {a} {'-' if minus else '+'} {b}"):
                break
        thinking = self.thinks() if thinking is None else thinking
        if minus:
            text = r.choice(("What is {} - {}?", "Calculate {} - {}.", "Subtract: {} - {} ="))
            return self.item(
                "add", self.user(text.format(a, b)), str(a - b), f"{a} - {b} = {a - b}.", thinking
            )
        text = r.choice(
            (
                "What is {} + {}?",
                "What is {} + {}?",
                "Calculate {} + {}.",
                "Add {} and {}.",
                "{} + {} =",
            )
        )
        return self.item(
            "add", self.user(text.format(a, b)), str(a + b), self.worked_sum(a, b), thinking
        )

    def sort(self) -> Item:
        r = self.random
        while True:
            values = [r.randrange(100) for _ in range(r.randint(3, 7))]
            down = r.random() < 0.3
            if self.wanted(f"sort {values} {down}"):
                break
        ordered = sorted(values, reverse=down)
        text = ", ".join(map(str, values))
        if down:
            question = r.choice(
                (
                    f"Sort in descending order: {text}",
                    f"Sort these numbers from largest to smallest: {text}",
                )
            )
        else:
            question = r.choice(
                (
                    f"Sort in ascending order: {text}",
                    f"Sort these numbers: {text}",
                    f"Sort these numbers from smallest to largest: {text}",
                )
            )
        end = "largest" if down else "smallest"
        return self.item(
            "sort",
            self.user(question),
            ", ".join(map(str, ordered)),
            f"There are {len(values)} numbers. The {end} is {ordered[0]}.",
            self.thinks(),
        )

    def copy(self) -> Item:
        r = self.random
        while True:
            parts = [
                r.choice(WORDS) if r.random() < 0.75 else str(r.randrange(1000))
                for _ in range(r.randint(3, 14))
            ]
            text = " ".join(parts)
            if self.wanted("copy " + text):
                break
        question = r.choice(
            ("Repeat: {}", "Copy this text exactly: {}", "Repeat after me: {}", "Say exactly: {}")
        )
        return self.item(
            "copy", self.user(question.format(text)), text, "I repeat the text.", self.thinks()
        )

    def json(self) -> Item:
        r = self.random
        while True:
            name, age, city, job = (
                r.choice(NAMES),
                r.randint(18, 90),
                r.choice(CITIES),
                r.choice(JOBS),
            )
            if self.wanted(f"json {name} {age} {city} {job}"):
                break
        sentence = r.choice(
            (
                "{name} is {age} years old, lives in {city} and works as a {job}.",
                "{name}, a {job} from {city}, is {age} years old.",
                "The {job} {name} lives in {city}. Age: {age}.",
                "In {city} there is a {job} called {name}, aged {age}.",
                "At {age}, {name} moved to {city} to work as a {job}.",
            )
        ).format(name=name, age=age, city=city, job=job)
        everything = {"name": name, "age": age, "city": city, "job": job}
        keys = r.sample(list(everything), r.randint(2, 4))
        answer = {k: everything[k] for k in keys}
        content = json.dumps(answer, ensure_ascii=False)
        more: Item = {}
        if self.training and r.random() < 0.15:
            more["schema"] = {
                "type": "object",
                "properties": {k: INTEGER if k == "age" else STRING for k in keys},
                "required": keys,
            }
            question = r.choice(("Extract the data: {}", "{}")).format(sentence)
        else:
            question = r.choice(
                (
                    f"Extract {', '.join(keys)} as JSON: {sentence}",
                    f"Extract the fields {', '.join(keys)} as JSON from this text: {sentence}",
                    f"{sentence}\nGive me {', '.join(keys)} as JSON.",
                )
            )
        reasoning = " ".join(f"The {k} is {answer[k]}." for k in keys)
        return self.item(
            "json",
            self.user(question),
            content,
            reasoning,
            self.thinks(),
            check="json",
            expected=answer,
            **more,
        )

    def system(self) -> Item:
        r = self.random
        while True:
            name, city, colour, job = (
                r.choice(NAMES),
                r.choice(CITIES),
                r.choice(COLOURS),
                r.choice(JOBS),
            )
            if self.wanted(f"system {name} {city} {colour} {job}"):
                break
        prompt = r.choice(
            (
                f"Your name is {name}. You live in {city}. Your favorite color is {colour}. "
                f"You work as a {job}.",
                f"You are {name}, a {job} from {city} who likes the color {colour}.",
                f"You play the {job} {name}. Home: {city}. Favorite color: {colour}.",
            )
        )
        question, answer = r.choice(
            (
                ("What is your name?", f"My name is {name}."),
                ("Where do you live?", f"I live in {city}."),
                ("What is your favorite color?", f"My favorite color is {colour}."),
                ("What is your job?", f"I work as a {job}."),
            )
        )
        return self.item(
            "system",
            [{"role": "system", "content": prompt}, *self.user(question)],
            answer,
            "The system message says it.",
            self.thinks(),
        )

    def arguments(self, tool: Item) -> Item:
        r = self.random
        out: Item = {}
        for key, kind in tool["function"]["parameters"]["properties"].items():
            if kind["type"] == "integer":
                out[key] = r.randint(1, 99)
            elif key == "city":
                out[key] = r.choice(CITIES)
            elif key == "to":
                out[key] = r.choice(NAMES)
            elif key == "text":
                out[key] = " ".join(r.choice(WORDS) for _ in range(r.randint(2, 5)))
            else:
                out[key] = r.choice(WORDS)
        return out

    def tool(self) -> Item:
        r = self.random
        while True:
            offered = r.sample(TOOLS, r.randint(1, 3))
            tool, questions = r.choice(offered)
            arguments = self.arguments(tool)
            name = tool["function"]["name"]
            if self.wanted(f"tool {name} {arguments}"):
                break
        question = r.choice(questions).format(**arguments)
        call = {"name": name, "arguments": arguments}
        return self.item(
            "tool",
            self.user(question),
            "",
            f"I call {name}.",
            self.thinks(),
            check="tool_call",
            expected=call,
            calls=[call],
            tools=[t for t, _ in offered],
        )

    def chat(self) -> Item:
        question, answer, reasoning = self.random.choice(GREETINGS)
        return self.item("chat", self.user(question), answer, reasoning, self.thinks())

    def explain(self) -> Item:
        if not self.knowledge:
            return self.chat()
        topic, answer = self.random.choice(self.knowledge)
        question = self.random.choice(
            ("What is {}?", "Explain: {}", "Tell me about {}.", "{}")
        ).format(topic)
        return self.item(
            "knowledge", self.user(question), answer, f"The user asks about {topic}.", self.thinks()
        )

    # ---------------------------------------------------------------- recall

    def fact(self) -> tuple[str, str]:
        while True:
            thing = f"{self.random.choice(ADJECTIVES)} {self.random.choice(NOUNS)}"
            value = str(self.random.randrange(1000, 10000))
            if self.wanted(f"recall {thing} {value}"):
                return thing, value

    def recall(self, characters: int, questions: int = 1, near_end: bool = False) -> Item:
        """Facts scattered in prose, asked for at the end.

        The distance from the first fact asked for to the end is log-uniform up to the length.
        With several questions the later ones are further turns of the same conversation.
        """
        r = self.random
        facts: dict[str, str] = {}
        count = questions + r.randint(0, 3)
        while len(facts) < count:
            thing, value = self.fact()
            facts.setdefault(thing, value)
        sentences: list[str] = []
        size = 0
        while size < characters:
            for s in r.choice(self.filler).split(". "):
                s = s if s.endswith((".", ":", "?", "!")) else s + "."
                sentences.append(s)
                size += len(s) + 1
                if size >= characters:
                    break
        tail = [0]
        for s in reversed(sentences):
            tail.append(tail[-1] + len(s) + 1)
        tail.reverse()  # tail[i] = characters from sentence i to the end
        places: list[tuple[int, str]] = []
        for n, (thing, value) in enumerate(facts.items()):
            reach = 100 * (max(tail[0], 101) / 100) ** r.random()
            if near_end and n == 0:
                reach = tail[0]
            index = next((i for i, t in enumerate(tail) if t <= reach), len(sentences))
            places.append((index, f"The code of the {thing} is {value}."))
        for index, text in sorted(places, key=lambda p: -p[0]):
            sentences.insert(index, text)
        asked = list(facts)[:questions]
        ask = r.choice(
            (
                "What is the code of the {}?",
                "What is the code of the {}?",
                "Tell me the code of the {}.",
            )
        )
        thinking = self.thinks()
        messages = self.user(" ".join(sentences) + "\n\n" + ask.format(asked[0]))
        for before, thing in itertools.pairwise(asked):
            messages.append({"role": "assistant", "content": facts[before]})
            messages += self.user(ask.format(thing))
        last = asked[-1]
        return self.item(
            "recall", messages, facts[last], f"The code of the {last} is {facts[last]}.", thinking
        )
