import anthropic

import common

TOOL = {"name": "get_weather", "description": "The weather of a city.", "input_schema": common.CITY}


def client(key):
    return anthropic.Anthropic(api_key=key, base_url=common.ROOT, timeout=common.SECONDS)


def request(model, text, **more):
    return {"model": model, "max_tokens": 100, "messages": [{"role": "user", "content": text}], **more}


def text_of(message):
    return "".join(block.text for block in message.content if block.type == "text")


def tokens(message):
    return {"input": message.usage.input_tokens, "output": message.usage.output_tokens}


def whole(key, model):
    answer = client(key).messages.create(**request(model, common.HELLO))
    return {"text": text_of(answer), **tokens(answer)}


def stream(key, model, seen):
    with client(key).messages.stream(**request(model, common.HELLO)) as events:
        for text in events.text_stream:
            common.piece(seen, text)
        seen.update(tokens(events.get_final_message()))


def tools(key):
    asked = request("tools", common.WEATHER, tools=[TOOL])
    asking = client(key).messages.create(**asked)
    call = next(block for block in asking.content if block.type == "tool_use")
    result = {"type": "tool_result", "tool_use_id": call.id, "content": common.sky(call.input["city"])}
    asked["messages"] += [{"role": "assistant", "content": asking.content}, {"role": "user", "content": [result]}]
    return {"tool": call.name, **call.input, "text": text_of(client(key).messages.create(**asked))}


def structured(key):
    asked = request("structured", common.WEATHER, output_format=common.Report)
    return client(key).messages.parse(**asked).parsed_output.model_dump()


common.main()
