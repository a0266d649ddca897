import asyncio

import openai
from agents import Agent, OpenAIResponsesModel, Runner, function_tool, set_tracing_disabled

import common

set_tracing_disabled(True)


def agent(key, model, **more):
    client = openai.AsyncOpenAI(api_key=key, base_url=common.BASE, timeout=common.SECONDS)
    return Agent(name="weather", model=OpenAIResponsesModel(model=model, openai_client=client), **more)


def tokens(result):
    usage = result.context_wrapper.usage
    return {"input": usage.input_tokens, "output": usage.output_tokens}


def whole(key, model):
    result = Runner.run_sync(agent(key, model), common.HELLO)
    return {"text": result.final_output, **tokens(result)}


def stream(key, model, seen):
    async def run():
        result = Runner.run_streamed(agent(key, model), common.HELLO)
        async for event in result.stream_events():
            if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
                common.piece(seen, event.data.delta)
        seen.update(tokens(result))

    asyncio.run(run())


def tools(key):
    calls = []

    @function_tool
    def get_weather(city: str) -> str:
        """The weather of a city."""
        calls.append({"tool": "get_weather", "city": city})
        return common.sky(city)

    result = Runner.run_sync(agent(key, "tools", tools=[get_weather]), common.WEATHER)
    return {**calls[0], "text": result.final_output}


def structured(key):
    result = Runner.run_sync(agent(key, "structured", output_type=common.Report), common.WEATHER)
    return result.final_output.model_dump()


common.main()
