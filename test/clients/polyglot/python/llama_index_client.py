from llama_index.core.llms import ChatMessage
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike

import common


def get_weather(city: str) -> str:
    """The weather of a city."""
    return common.sky(city)


TOOL = FunctionTool.from_defaults(get_weather)


def chat(key, model, **more):
    return OpenAILike(
        model=model,
        api_key=key,
        api_base=common.BASE,
        is_chat_model=True,
        is_function_calling_model=True,
        context_window=8192,
        timeout=common.SECONDS,
        **more,
    )


def said(text):
    return [ChatMessage(role="user", content=text)]


def tokens(answer):
    usage = getattr(answer.raw, "usage", None)
    return {"input": usage.prompt_tokens, "output": usage.completion_tokens} if usage else {}


def whole(key, model):
    answer = chat(key, model).chat(said(common.HELLO))
    return {"text": answer.message.content, **tokens(answer)}


def stream(key, model, seen):
    options = {"stream_options": {"include_usage": True}}
    for chunk in chat(key, model, additional_kwargs=options).stream_chat(said(common.HELLO)):
        common.piece(seen, chunk.delta)
        seen.update(tokens(chunk))


def tools(key):
    model = chat(key, "tools")
    asking = model.chat_with_tools([TOOL], user_msg=common.WEATHER)
    call = model.get_tool_calls_from_response(asking)[0]
    result = ChatMessage(
        role="tool", content=TOOL(**call.tool_kwargs).content, additional_kwargs={"tool_call_id": call.tool_id}
    )
    answer = model.chat_with_tools([TOOL], chat_history=[*said(common.WEATHER), asking.message, result])
    return {"tool": call.tool_name, **call.tool_kwargs, "text": answer.message.content}


def structured(key):
    return chat(key, "structured").as_structured_llm(common.Report).chat(said(common.WEATHER)).raw.model_dump()


common.main()
