"""Asks a running server through the client libraries that people use. For development only.

    tessera serve &
    python3 scripts/oracle/openai_client.py http://127.0.0.1:8080/v1 [API_KEY]

Prints a line per check and exits with 1 if one fails. Needs `pip install openai`; langchain-openai
and litellm are asked too where they are installed. Tried with openai 3.57.0,
langchain-openai 1.7.4 and litellm 1.110.2, Python 3.11: all checks pass.
"""
import base64
import importlib.util
import json
import os
import pathlib
import sys

import openai

PICTURES = pathlib.Path(__file__).resolve().parents[2] / "models/demo/eval/images"
HELLO = [{"role": "user", "content": "Hello"}]
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Weather of a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}

failures = 0


def check(name, function):
    """Runs a check; what it returns is shown."""
    global failures
    try:
        print(f"ok    {name}: {str(function())[:100]!r}")
    except Exception as error:  # every kind is a finding
        failures += 1
        print(f"FAIL  {name}: {type(error).__name__}: {str(error)[:300]}")


def image_messages(name="p003.png", question="What do you see?"):
    data = base64.b64encode((PICTURES / name).read_bytes()).decode()
    return [
        {
            "role": "user",
            "content": [
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}},
                {"type": "text", "text": question},
            ],
        }
    ]


def expect(condition, found):
    """Returns the condition, which may be the text to show."""
    if not condition:
        raise AssertionError(f"found {found!r}")
    return condition


def raises(kind, function, **attributes):
    try:
        function()
    except kind as error:
        for name, value in attributes.items():
            expect(getattr(error, name) == value, (name, getattr(error, name)))
        return f"{type(error).__name__} {error.message}"
    raise AssertionError(f"expected {kind.__name__}, nothing was raised")


class Checks:
    def __init__(self, base_url, key):
        self.base_url = base_url
        self.key = key
        self.client = openai.OpenAI(base_url=base_url, api_key=key, max_retries=0)
        self.model = "unknown"

    def chat(self, messages=None, **more):
        more = {"temperature": 0, **more}
        return self.client.chat.completions.create(
            model=self.model, messages=messages or HELLO, **more
        )

    def models(self):
        models = self.client.models.list().data
        self.model = models[0].id
        expect(self.client.models.retrieve(self.model).id == self.model, models)
        return [model.id for model in models]

    def whole(self):
        answer = self.chat()
        expect(answer.usage.total_tokens > 0, answer.usage)
        return expect(answer.choices[0].message.content, answer)

    def streamed(self):
        whole = self.chat()
        stream = self.chat(stream=True, stream_options={"include_usage": True})
        chunks = list(stream)
        text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
        expect(text == whole.choices[0].message.content, text)
        expect(chunks[-1].usage.completion_tokens == whole.usage.completion_tokens, chunks[-1])
        return text

    def stream_helper(self):
        with self.client.chat.completions.stream(model=self.model, messages=HELLO) as stream:
            kinds = {event.type for event in stream}
            final = stream.get_final_completion()
        expect("content.done" in kinds, kinds)
        return final.choices[0].message.content

    def image(self):
        answer = self.chat(image_messages()).choices[0].message.content
        return expect("carrots" in answer and answer, answer)

    def tools(self):
        answer = self.chat(tools=[TOOL], max_tokens=40).choices[0]
        calls = answer.message.tool_calls or []
        expect(answer.finish_reason in ("stop", "length", "tool_calls"), answer)
        expect(all(json.loads(c.function.arguments) is not None for c in calls), calls)
        messages = HELLO + [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": "call_1",
                        "type": "function",
                        "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": "call_1", "content": "sunny"},
        ]
        again = self.chat(messages, tools=[TOOL], max_tokens=40)
        return answer.finish_reason, again.choices[0].finish_reason

    def logprobs(self):
        choice = self.chat(logprobs=True, top_logprobs=3).choices[0]
        entries = choice.logprobs.content
        expect(all(len(e.top_logprobs) == 3 for e in entries), entries)
        text = b"".join(bytes(e.bytes) for e in entries).decode()
        expect(text.startswith(choice.message.content), text)
        return text

    def several(self):
        choices = self.chat(n=2, temperature=1, seed=3).choices
        return [choice.message.content for choice in choices]

    def completion(self):
        answer = self.client.completions.create(
            model=self.model, prompt="Hello", max_tokens=5, temperature=0, echo=True, logprobs=None
        )
        stream = self.client.completions.create(
            model=self.model, prompt="Hello", max_tokens=5, temperature=0, echo=True, stream=True
        )
        text = "".join(chunk.choices[0].text for chunk in stream)
        return expect(text == answer.choices[0].text and text, (text, answer))

    def json_object(self):
        messages = [{"role": "user", "content": "Say json."}]
        return self.chat(messages, response_format={"type": "json_object"}).choices[0].finish_reason

    def bad_request(self):
        return raises(
            openai.BadRequestError, lambda: self.chat(temperature=3), param="temperature"
        )

    def too_long(self):
        return raises(
            openai.BadRequestError,
            lambda: self.chat([{"role": "user", "content": "7" * 200_000}]),
            code="context_length_exceeded",
        )

    def wrong_key(self):
        client = openai.OpenAI(base_url=self.base_url, api_key="wrong-key-0123456789")
        if self.key == "none":
            return "the server has no keys"
        return raises(openai.AuthenticationError, client.models.list, code="invalid_api_key")

    def unknown_model(self):
        return raises(
            openai.NotFoundError,
            lambda: self.client.chat.completions.create(model="other", messages=HELLO),
            code="model_not_found",
            param="model",
        )

    def langchain(self):
        from langchain_openai import ChatOpenAI

        model = ChatOpenAI(
            base_url=self.base_url, api_key=self.key, model=self.model, temperature=0
        )
        whole = model.invoke("Hello")
        expect(whole.usage_metadata["input_tokens"] > 0, whole)
        text = "".join(chunk.content for chunk in model.stream("Hello"))
        expect(text == whole.content, text)
        expect("carrots" in model.invoke(image_messages()).content, "image")
        model.bind_tools([TOOL]).invoke("Hello")
        return text

    def litellm(self):
        os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it asks the internet
        import litellm

        more = {"api_base": self.base_url, "api_key": self.key, "temperature": 0}
        name = f"openai/{self.model}"
        whole = litellm.completion(model=name, messages=HELLO, **more).choices[0].message.content
        stream = litellm.completion(model=name, messages=HELLO, stream=True, **more)
        text = "".join(chunk.choices[0].delta.content or "" for chunk in stream)
        expect(text == whole, text)
        image = litellm.completion(model=name, messages=image_messages(), **more)
        expect("carrots" in image.choices[0].message.content, image)
        return text


def has(module):
    return importlib.util.find_spec(module) is not None


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(f"usage: {sys.argv[0]} BASE_URL [API_KEY]")
    checks = Checks(sys.argv[1], sys.argv[2] if len(sys.argv) == 3 else "none")
    for name in (
        "models whole streamed stream_helper image tools logprobs several completion json_object "
        "bad_request too_long wrong_key unknown_model"
    ).split():
        check(name, getattr(checks, name))
    for name, module in (("langchain", "langchain_openai"), ("litellm", "litellm")):
        if has(module):
            check(name, getattr(checks, name))
        else:
            print(f"      {name}: not installed")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
