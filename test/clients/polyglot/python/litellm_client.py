import json

import litellm

import common

litellm.suppress_debug_info = True
litellm.drop_params = False
TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": common.CITY}}


def ask(key, model, messages, **more):
    # The prefix selects the OpenAI format; `api_base` is the address.
    return litellm.completion(
        model=f"openai/{model}", messages=messages, api_base=common.BASE, api_key=key, timeout=common.SECONDS, **more
    )


def said(text):
    return [{"role": "user", "content": text}]


def whole(key, model):
    answer = ask(key, model, said(common.HELLO))
    usage = answer.usage
    return {"text": answer.choices[0].message.content, "input": usage.prompt_tokens, "output": usage.completion_tokens}


def stream(key, model, seen):
    for chunk in ask(key, model, said(common.HELLO), stream=True, stream_options={"include_usage": True}):
        common.piece(seen, chunk.choices[0].delta.content if chunk.choices else None)
        usage = getattr(chunk, "usage", None)
        if usage is not None:
            seen.update(input=usage.prompt_tokens, output=usage.completion_tokens)


def tools(key):
    messages = said(common.WEATHER)
    message = ask(key, "tools", messages, tools=[TOOL]).choices[0].message
    call = message.tool_calls[0]
    city = json.loads(call.function.arguments)["city"]
    result = {"role": "tool", "tool_call_id": call.id, "content": common.sky(city)}
    answer = ask(key, "tools", [*messages, message, result], tools=[TOOL])
    return {"tool": call.function.name, "city": city, "text": answer.choices[0].message.content}


def structured(key):
    answer = ask(key, "structured", said(common.WEATHER), response_format=common.Report)
    return common.Report.model_validate_json(answer.choices[0].message.content).model_dump()


common.main()
