import instructor
import openai

import common

# Its answers are objects or texts.
LACKS_TOOLS = "has none"


def client(key):
    return instructor.from_openai(openai.OpenAI(api_key=key, base_url=common.BASE, timeout=common.SECONDS))


def said(text):
    return [{"role": "user", "content": text}]


def whole(key, model):
    # Without a response model it returns the library's own answer.
    answer = client(key).chat.completions.create(model=model, messages=said(common.HELLO), response_model=None)
    usage = answer.usage
    return {"text": answer.choices[0].message.content, "input": usage.prompt_tokens, "output": usage.completion_tokens}


def stream(key, model, seen):
    options = {"stream": True, "stream_options": {"include_usage": True}}
    chunks = client(key).chat.completions.create(
        model=model, messages=said(common.HELLO), response_model=None, **options
    )
    for chunk in chunks:
        common.piece(seen, chunk.choices[0].delta.content if chunk.choices else None)
        if chunk.usage:
            seen.update(input=chunk.usage.prompt_tokens, output=chunk.usage.completion_tokens)


def structured(key):
    return (
        client(key)
        .chat.completions.create(
            model="structured", messages=said(common.WEATHER), response_model=common.Report, max_retries=0
        )
        .model_dump()
    )


common.main()
