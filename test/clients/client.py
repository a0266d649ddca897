"""The official OpenAI library for Python, pointed at the gateway by OPENAI_BASE_URL and OPENAI_API_KEY.

Prints one JSON line per case with the library's result. `python.system.test.ts` has the expected results.
stdin has the cases that fail, as JSON: [{"name", "base_url", "api_key", "request"}]; each is asked whole and as a stream.
"""

import asyncio
import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import openai
from pydantic import BaseModel

# Such a variable would redirect the requests.
for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
    del os.environ[name]

client = openai.OpenAI()
HELLO = [{"role": "user", "content": "Hello"}]
SAY = [{"role": "user", "content": "say: one two three"}]
WEATHER = [{"role": "user", "content": "What is the weather in Paris?"}]
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "The weather of a city.",
            "strict": True,
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}},
                "required": ["city"],
                "additionalProperties": False,
            },
        },
    }
]


class Film(BaseModel):
    title: str
    year: int
    kinds: list[str]


class NoError(Exception):
    """An expected exception was not raised."""


def whole():
    answer = client.chat.completions.create(model="demo", messages=SAY)
    choice = answer.choices[0]
    return {
        "text": choice.message.content,
        "finish": choice.finish_reason,
        "model": answer.model,
        "usage": answer.usage.model_dump(),
        "request_id": answer._request_id,
    }


def raw_response():
    answer = client.chat.completions.with_raw_response.create(model="demo", messages=SAY)
    return {
        "status": answer.status_code,
        "headers": dict(answer.headers),
        "request_id": answer.request_id,
        "retries": answer.retries_taken,
        "text": answer.parse().choices[0].message.content,
        "usage": answer.parse().usage.model_dump(),
    }


def choices():
    answer = client.chat.completions.create(model="demo", messages=HELLO, n=2)
    return {"indexes": [choice.index for choice in answer.choices]}


def cap():
    messages = [{"role": "user", "content": "count to 100"}]
    answer = client.chat.completions.create(model="demo", messages=messages, max_completion_tokens=5)
    return {"finish": answer.choices[0].finish_reason, "tokens": answer.usage.completion_tokens}


def stream():
    messages = [{"role": "user", "content": "count to 20"}]
    chunks = list(client.chat.completions.create(model="demo", messages=messages, stream=True))
    return text_and_usage(chunks)


def stream_with_usage():
    options = {"include_usage": True}
    with client.chat.completions.with_streaming_response.create(
        model="demo", messages=SAY, stream=True, stream_options=options
    ) as response:
        return {**text_and_usage(list(response.parse())), "request_id": response.headers["x-request-id"]}


def stream_helper():
    counts = {}
    with client.chat.completions.stream(model="demo", messages=SAY) as events:
        for event in events:
            counts[event.type] = counts.get(event.type, 0) + 1
        completion = events.get_final_completion()
    return {"counts": counts, "text": completion.choices[0].message.content}


def text_and_usage(chunks):
    deltas = [choice.delta.content for chunk in chunks for choice in chunk.choices]
    usages = [chunk.usage.model_dump() for chunk in chunks if chunk.usage is not None]
    return {
        "pieces": len([text for text in deltas if text]),
        "text": "".join(text or "" for text in deltas),
        "finish": [choice.finish_reason for chunk in chunks for choice in chunk.choices][-1],
        "usages": usages,
    }


def tools():
    asking = client.chat.completions.create(model="demo", messages=WEATHER, tools=TOOLS).choices[0]
    call = asking.message.tool_calls[0]
    result = {"role": "tool", "tool_call_id": call.id, "content": '{"sky":"clear"}'}
    answer = client.chat.completions.create(
        model="demo", messages=[*WEATHER, asking.message, result], tools=TOOLS
    )
    return {
        "finish": asking.finish_reason,
        "name": call.function.name,
        "arguments": json.loads(call.function.arguments),
        "text": answer.choices[0].message.content,
    }


def tools_streamed():
    with client.chat.completions.stream(model="demo", messages=WEATHER, tools=TOOLS) as events:
        pieces = [event for event in events if event.type == "tool_calls.function.arguments.delta"]
        call = events.get_final_completion().choices[0].message.tool_calls[0]
    return {"pieces": len(pieces), "name": call.function.name, "arguments": call.function.parsed_arguments}


FILM = [{"role": "user", "content": "A film about Paris"}]


def parsed():
    answer = client.chat.completions.parse(model="demo", messages=FILM, response_format=Film)
    return {"is": type(answer.choices[0].message.parsed).__name__}


def parsed_streamed():
    with client.chat.completions.stream(model="demo", messages=FILM, response_format=Film) as events:
        message = events.get_final_completion().choices[0].message
    return {"is": type(message.parsed).__name__}


def models():
    return {"ids": sorted(model.id for model in client.models.list()), "one": client.models.retrieve("demo").id}


def in_three_tries():
    started_at = time.monotonic()
    answer = client.chat.completions.with_raw_response.create(model="fails-twice", messages=HELLO)
    seconds = time.monotonic() - started_at
    return {"text": answer.parse().choices[0].message.content, "retries": answer.retries_taken, "seconds": seconds}


def broken_stream():
    text = ""
    try:
        for chunk in client.chat.completions.create(model="breaks", messages=HELLO, stream=True):
            text += chunk.choices[0].delta.content or ""
    except openai.APIError as error:
        return {"text": text, **failure(error)}
    raise NoError


def closed_stream():
    text = ""
    with client.chat.completions.create(model="stops", messages=HELLO, stream=True) as chunks:
        for chunk in chunks:
            text += chunk.choices[0].delta.content or ""
            if text:
                break
    return {"text": text}


def impatient():
    try:
        client.with_options(timeout=0.3, max_retries=0).chat.completions.create(model="silent", messages=HELLO)
    except openai.APITimeoutError as error:
        return {"is": type(error).__name__}
    raise NoError


async def asynchronous():
    async with openai.AsyncOpenAI() as other:
        answer, chunks = await asyncio.gather(
            other.chat.completions.create(model="demo", messages=SAY),
            other.chat.completions.create(model="demo", messages=SAY, stream=True),
        )
        streamed = text_and_usage([chunk async for chunk in chunks])
        try:
            await other.chat.completions.create(model="nothing", messages=HELLO)
        except openai.NotFoundError as error:
            return {"text": answer.choices[0].message.content, "streamed": streamed["text"], **failure(error)}
        raise NoError


def fails(case, streamed):
    other = openai.OpenAI(base_url=case["base_url"][streamed], api_key=case["api_key"])
    request = {"model": "m", "messages": HELLO, **case["request"]}
    try:
        answer = other.chat.completions.create(**request, stream=streamed)
        if streamed:
            list(answer)
    except openai.APIError as error:
        return failure(error)
    raise NoError


def failure(error):
    return {
        "is": type(error).__name__,
        "bases": [base.__name__ for base in type(error).__mro__],
        "status": getattr(error, "status_code", None),
        "code": error.code,
        "param": error.param,
        "type": error.type,
        "message": error.message,
        "request_id": getattr(error, "request_id", None),
    }


CASES = [
    whole,
    raw_response,
    choices,
    cap,
    stream,
    stream_with_usage,
    stream_helper,
    tools,
    tools_streamed,
    parsed,
    parsed_streamed,
    models,
    in_three_tries,
    broken_stream,
    closed_stream,
    impatient,
]


def run_case(name, run):
    """Runs a case and returns its line; an exception becomes a failed case."""
    try:
        return {"case": name, **run()}
    except Exception as error:
        return {"case": name, "crashed": f"{type(error).__name__}: {error}"}


def report(line):
    print(json.dumps(line), flush=True)


for case in CASES:
    report(run_case(case.__name__, case))
report(run_case("asynchronous", lambda: asyncio.run(asynchronous())))
# In parallel, because the library waits before each retry.
with ThreadPoolExecutor(32) as pool:
    lines = [
        pool.submit(tried, f"{case['name']} (stream {json.dumps(streamed)})", partial(fails, case, streamed))
        for case in json.load(sys.stdin)
        for streamed in (False, True)
    ]
    for line in lines:
        report(line.result())
