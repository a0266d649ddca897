import asyncio

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

import common


def agent(key, model, **more):
    return Agent(OpenAIChatModel(model, provider=OpenAIProvider(base_url=common.BASE, api_key=key)), **more)


def tokens(result):
    usage = result.usage() if callable(result.usage) else result.usage
    return {"input": usage.input_tokens, "output": usage.output_tokens}


def whole(key, model):
    answer = agent(key, model).run_sync(common.HELLO)
    return {"text": answer.output, **tokens(answer)}


def stream(key, model, seen):
    async def run():
        async with agent(key, model).run_stream(common.HELLO) as answer:
            async for text in answer.stream_text(delta=True, debounce_by=None):
                common.piece(seen, text)
            seen.update(tokens(answer))

    asyncio.run(run())


def tools(key):
    calls = []
    asking = agent(key, "tools")

    @asking.tool_plain
    def get_weather(city: str) -> str:
        """The weather of a city."""
        calls.append({"tool": "get_weather", "city": city})
        return common.sky(city)

    answer = asking.run_sync(common.WEATHER)
    return {**calls[0], "text": answer.output}


def structured(key):
    return agent(key, "structured", output_type=common.Report).run_sync(common.WEATHER).output.model_dump()


common.main()
