from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

import common


@tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    return common.sky(city)


def chat(key, model, **more):
    return ChatOpenAI(model=model, api_key=key, base_url=common.BASE, timeout=common.SECONDS, **more)


def tokens(message):
    usage = message.usage_metadata or {}
    return {"input": usage.get("input_tokens"), "output": usage.get("output_tokens")}


def whole(key, model):
    answer = chat(key, model).invoke(common.HELLO)
    return {"text": answer.content, **tokens(answer)}


def stream(key, model, seen):
    for chunk in chat(key, model, stream_usage=True).stream(common.HELLO):
        common.piece(seen, chunk.content)
        if chunk.usage_metadata:
            seen.update(tokens(chunk))


def tools(key):
    model = chat(key, "tools").bind_tools([get_weather])
    messages = [HumanMessage(common.WEATHER)]
    asking = model.invoke(messages)
    call = asking.tool_calls[0]
    result = ToolMessage(get_weather.invoke(call["args"]), tool_call_id=call["id"])
    answer = model.invoke([*messages, asking, result])
    return {"tool": call["name"], **call["args"], "text": answer.content}


def structured(key):
    return chat(key, "structured").with_structured_output(common.Report).invoke(common.WEATHER).model_dump()


common.main()
