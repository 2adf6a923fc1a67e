#!/usr/bin/env python3
"""Chat templates rendered by this engine and by Jinja2: every text must be the same.

    make render
    check.py FILE.jinja ...      published templates, one a file
    check.py MODEL.gguf ...      the template inside (needs the gguf package)

Conversations with system, user, assistant, tool turns, empty, missing and null contents, content
in parts, with and without tools.  Where Jinja2 raises an error, this engine must, too.
Needs the packages jinja2 (as Hugging Face's renderer sets it up) and markupsafe.
"""

import datetime
import itertools
import json
import re
import subprocess
import sys
from pathlib import Path

import jinja2
from jinja2.ext import Extension
from jinja2.sandbox import ImmutableSandboxedEnvironment

RENDER = Path(__file__).parent.parent.parent / "out/tools/render"

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "The weather\nof a city",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "a name, e.g. Zürich"},
                    "unit": {"type": "string", "enum": ["c", "f"]},
                    "days": {"type": "integer", "default": 3},
                },
                "required": ["city"],
            },
        },
    },
    {
        "type": "function",
        "function": {"name": "now", "description": "time", "parameters": {"type": "object", "properties": {}}},
    },
]


def say(role, content, **more):
    return {"role": role, "content": content, **more}


def calls(arguments, content=None):
    function = {"name": "get_weather", "arguments": arguments}
    return say("assistant", content, tool_calls=[{"id": "call00001", "type": "function", "function": function}])


SYSTEM, USER, ANSWER = say("system", "You are  helpful. "), say("user", "Hi <|im_end|> there?\n"), say("assistant", " Hello! ")
THINK = say("assistant", "<think>\nhm\n</think>\n\nAnswer")
REASON = say("assistant", "Answer", reasoning_content="because é")
CALL, CALL_TEXT = calls({"city": "Zürich", "days": 2, "f": 1.5, "n": None, "b": True, "l": [1, "a"]}), calls('{"city": "Rome"}', "")
RESULT = say("tool", '{"t": 20}', name="get_weather", tool_call_id="call00001")
PARTS = say("user", [{"type": "text", "text": "one"}, {"type": "text", "text": " two"}])
CONVERSATIONS = [
    [USER], [SYSTEM, USER], [USER, ANSWER, USER], [SYSTEM, USER, ANSWER, USER, ANSWER, USER], [USER, THINK, USER],
    [USER, REASON, USER], [USER, CALL, RESULT], [SYSTEM, USER, CALL, RESULT, ANSWER, USER], [USER, CALL_TEXT, RESULT, ANSWER],
    [USER, CALL, RESULT, RESULT, ANSWER, USER], [PARTS], [SYSTEM, PARTS, ANSWER, PARTS], [say("user", "")],
    [say("system", ""), USER], [USER, say("assistant", None), USER], [say("developer", "dev"), USER], [], [SYSTEM],
    [USER, USER], [ANSWER, USER], [USER, ANSWER], [{"role": "user"}], [say("alien", "x")], [USER, CALL, RESULT, REASON, USER],
]  # fmt: skip
EXTRAS = [{}, {"enable_thinking": False}, {"enable_thinking": True, "thinking": True, "reasoning_effort": "high"}]
NAMES = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_same"), [], [], body).set_lineno(line)

    def _same(self, caller):
        return caller()


def environment():
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, "jinja2.ext.loopcontrols"]
    )
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
    return env


def template_of(path):
    if path.suffix != ".gguf":
        return path.read_text()
    import gguf

    return gguf.GGUFReader(path).fields["tokenizer.chat_template"].contents()


def check(path, env):
    """(cases, those that both refuse, those that differ)"""
    source, cases = template_of(path), []
    template = env.from_string(source)
    for messages, tools, extra, gen in itertools.product(CONVERSATIONS, (None, TOOLS), EXTRAS, (True, False)):
        cases.append(dict(template=source, messages=messages, tools=tools, extra={**NAMES, **extra}, add_generation_prompt=gen))
    lines = "\n".join(json.dumps(c) for c in cases) + "\n"
    out = subprocess.run([RENDER], input=lines.encode(), capture_output=True, check=True).stdout.decode().splitlines()
    refused, wrong = 0, []
    for case, line in zip(cases, out, strict=True):
        variables = {k: v for k, v in case.items() if k not in ("template", "extra")}
        try:
            want = template.render(**variables, documents=None, **case["extra"])
        except Exception as problem:
            want, refused = problem, refused + 1
        got = json.loads(line)
        if isinstance(want, Exception) != ("error" in got) or isinstance(want, str) and want != got["text"]:
            wrong.append((case, want, got))
    return len(cases), refused, wrong


def show(case, want, got):
    print("  ", [m["role"] for m in case["messages"]], "tools" if case["tools"] else "", case["extra"])
    if isinstance(want, Exception) or "error" in got:
        print("    want", repr(want)[:200], "\n    got ", str(got)[:200])
        return
    same = next((i for i, (a, b) in enumerate(zip(want, got["text"])) if a != b), min(len(want), len(got["text"])))
    print("    want", repr(want[max(0, same - 40) : same + 60]), "\n    got ", repr(got["text"][max(0, same - 40) : same + 60]))


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    env, total, bad = environment(), 0, 0
    for path in map(Path, sys.argv[1:]):
        cases, refused, wrong = check(path, env)
        print(f"{path.name}: {cases} cases, {refused} refused by both, {len(wrong)} differ")
        for one in wrong[:2]:
            show(*one)
        total, bad = total + cases, bad + len(wrong)
    print(f"{total} cases, {bad} differ")
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
