/** The official OpenAI library for JavaScript, pointed at the gateway: everything that works with api.openai.com works. */
import { Ajv2020 } from 'ajv/dist/2020.js'
import OpenAI from 'openai'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { exact, gated } from '../helpers/fake-provider.ts'
import { HELLO, type Rig, startRig } from './rig.system.ts'

let rig: Rig
let client: OpenAI

beforeAll(async () => {
  rig = await startRig()
  client = rig.openai()
})
afterAll(() => rig.close())

/** The charge for an answer in nano-dollars, at 1,000 and 2,000 a token. */
function bill(usage: OpenAI.CompletionUsage | null | undefined): bigint {
  return BigInt(usage!.prompt_tokens * 1000 + usage!.completion_tokens * 2000)
}

async function charged(requestId: string | null | undefined): Promise<bigint | null | undefined> {
  await rig.gateway.exchangeLine(requestId!)
  return rig.gateway.running.store.reads.findReceipt(requestId!)?.charged
}

describe('a whole answer', () => {
  test('text, usage, the catalog’s model, and the id of the request', async () => {
    const { data, response, request_id } = await client.chat.completions
      .create({ model: 'demo', messages: [{ role: 'user', content: 'say: one two three' }] })
      .withResponse()
    expect(data).toMatchObject({
      object: 'chat.completion',
      model: 'demo',
      choices: [{ message: { role: 'assistant', content: 'one two three' }, finish_reason: 'stop' }],
    })
    expect(data).toMatchObject({ _request_id: expect.stringMatching(/^req_/) })
    expect(data).toMatchObject({ _request_id: request_id })
    expect(await charged(request_id)).toBe(bill(data.usage))
    expect(response.headers.get('x-tollgate-cost')).toBe(`0.${String(bill(data.usage)).padStart(9, '0')}`)
  })

  test('n choices', async () => {
    const completion = await client.chat.completions.create({ model: 'demo', messages: HELLO, n: 2 })
    expect(completion.choices.map(choice => choice.index)).toEqual([0, 1])
    for (const { message } of completion.choices) expect(message.content).toMatch(/\w/)
  })

  test('stop', async () => {
    const messages = [{ role: 'user' as const, content: 'count to 9' }]
    const completion = await client.chat.completions.create({ model: 'demo', messages, stop: [', 4'] })
    expect(completion.choices[0]).toMatchObject({ message: { content: '1, 2, 3' }, finish_reason: 'stop' })
  })

  test('a cap', async () => {
    const messages = [{ role: 'user' as const, content: 'count to 100' }]
    const completion = await client.chat.completions.create({ model: 'demo', messages, max_completion_tokens: 5 })
    expect(completion).toMatchObject({ choices: [{ finish_reason: 'length' }], usage: { completion_tokens: 5 } })
  })

  test('log probabilities', async () => {
    const completion = await client.chat.completions.create({
      model: 'demo',
      messages: [{ role: 'user', content: 'say: abc' }],
      logprobs: true,
      top_logprobs: 2,
    })
    const content = completion.choices[0]!.logprobs!.content!
    expect(content.map(({ token }) => token).join('')).toBe('abc')
    for (const { logprob, top_logprobs } of content) {
      expect(logprob).toBeLessThan(0)
      expect(top_logprobs).toHaveLength(2)
    }
  })

  test('a reasoning model reasons by the effort, and its reasoning is billed', async () => {
    const ask = (reasoning_effort: 'low' | 'high') =>
      client.chat.completions.create({ model: 'thinking', messages: HELLO, reasoning_effort })
    const [low, high] = await Promise.all([ask('low'), ask('high')])
    expect(low.usage?.completion_tokens_details?.reasoning_tokens).toBe(16)
    expect(high.usage?.completion_tokens_details?.reasoning_tokens).toBe(128)
    expect(low.choices[0]?.message).toMatchObject({ reasoning_content: expect.stringContaining('Hello') })
    expect(await charged(high._request_id)).toBe(bill(high.usage))
  })
})

describe('a stream', () => {
  test('the text in pieces, the finish reason last; usage only on request', async () => {
    const request = { model: 'demo', messages: HELLO, stream: true } as const
    const plain = await collect(await client.chat.completions.create(request))
    expect(plain.text).toMatch(/\w/)
    expect(plain.chunks.length).toBeGreaterThan(5)
    expect(plain.finish).toBe('stop')
    expect(plain.chunks.filter(chunk => 'usage' in chunk)).toEqual([])
    expect(plain.chunks.filter(chunk => chunk.model !== 'demo')).toEqual([])

    const { data, request_id } = await client.chat.completions
      .create({ ...request, stream_options: { include_usage: true } })
      .withResponse()
    const { chunks, text } = await collect(data)
    expect(text).toBe(plain.text)
    const usage = chunks.at(-1)
    expect(usage).toMatchObject({ choices: [], usage: { total_tokens: expect.any(Number) } })
    expect(chunks.slice(0, -1).filter(chunk => chunk.usage !== null)).toEqual([])
    expect(await charged(request_id)).toBe(bill(usage?.usage))
  })

  test('reasoning comes before the text', async () => {
    const stream = await client.chat.completions.create({ model: 'thinking', messages: HELLO, stream: true })
    const { chunks } = await collect(stream)
    const kinds = chunks
      .map(({ choices: [choice] }) => choice?.delta as { content?: string; reasoning_content?: string })
      .map(delta => (delta?.reasoning_content ? 'thought' : delta?.content ? 'text' : ''))
      .filter(Boolean)
    expect(kinds.lastIndexOf('thought')).toBe(kinds.indexOf('text') - 1)
    expect(kinds[0]).toBe('thought')
  })

  test('the helper with its events', async () => {
    const seen: Record<string, number> = {}
    const note = (name: string) => () => {
      seen[name] = (seen[name] ?? 0) + 1
    }
    const stream = client.chat.completions
      .stream({
        model: 'demo',
        messages: [{ role: 'user', content: 'say: one two three' }],
        stream_options: { include_usage: true },
      })
      .on('chunk', note('chunk'))
      .on('content', note('content'))
      .on('content.done', note('content.done'))
      .on('finalChatCompletion', note('finalChatCompletion'))
      .on('error', note('error'))
      .on('end', note('end'))
    const completion = await stream.finalChatCompletion()
    expect(completion).toMatchObject({
      model: 'demo',
      choices: [{ message: { content: 'one two three' }, finish_reason: 'stop' }],
    })
    expect(await stream.finalContent()).toBe('one two three')
    expect(await stream.totalUsage()).toMatchObject({ completion_tokens: completion.usage?.completion_tokens })
    expect(seen).toMatchObject({ 'content.done': 1, finalChatCompletion: 1, end: 1 })
    expect(seen['content']).toBeGreaterThan(2)
    expect(seen).not.toHaveProperty('error')
  })

  test('n choices in turn', async () => {
    const stream = client.chat.completions.stream({ model: 'demo', messages: HELLO, n: 2 })
    const { choices } = await stream.finalChatCompletion()
    expect(choices.map(({ index, finish_reason }) => [index, finish_reason])).toEqual([
      [0, 'stop'],
      [1, 'stop'],
    ])
  })

  test('aborting it closes the connection to the provider within a second, and the received tokens are charged', async () => {
    rig.provider.script(gated({ tokens: 4 }))
    const index = rig.provider.requests.length
    const stream = await openStream(index)
    const request = rig.provider.requests[index]!
    await request.step()
    const chunks: OpenAI.ChatCompletionChunk[] = []
    let leftAt = 0
    for await (const chunk of stream.data) {
      chunks.push(chunk)
      if (chunks.length < 3) continue
      leftAt = performance.now()
      stream.data.controller.abort()
    }
    expect(chunks.map(({ choices }) => choices[0]?.delta.content)).toEqual(['', 't0', ' t1'])
    const { how, at } = await rig.provider.waitForClose(request)
    expect(how).not.toBe('answered')
    expect(at - leftAt).toBeLessThan(5 * 1000)
    expect(await charged(stream.request_id)).toBe(BigInt(6 * 1000 + 2 * 2000))
  })

  test('breaking out of the loop closes the connection to the provider too', async () => {
    rig.provider.script(gated({ tokens: 4 }))
    const index = rig.provider.requests.length
    const { data } = await openStream(index)
    for await (const _chunk of data) break
    const { how } = await rig.provider.waitForClose(rig.provider.requests[index]!)
    expect(how).not.toBe('answered')
  })

  test('aborting a whole answer closes the connection to the provider too', async () => {
    rig.provider.script(gated({ tokens: 4 }))
    const index = rig.provider.requests.length
    const controller = new AbortController()
    const answer = client.chat.completions.create({ model: 'm', messages: HELLO }, { signal: controller.signal })
    const request = await rig.provider.waitForRequest(index)
    controller.abort()
    await expect(answer).rejects.toBeInstanceOf(OpenAI.APIUserAbortError)
    expect((await rig.provider.waitForClose(request)).how).not.toBe('answered')
  })

  /** A stream of the scripted provider after its first content. */
  async function openStream(index: number) {
    const opening = client.chat.completions.create({ model: 'm', messages: HELLO, stream: true }).withResponse()
    await (await rig.provider.waitForRequest(index)).step(2)
    return opening
  }
})

describe('tools and structured output', () => {
  const weather = (calls: unknown[]) => ({
    type: 'function' as const,
    function: {
      name: 'get_weather',
      description: 'The weather of a city.',
      parameters: {
        type: 'object' as const,
        properties: { city: { type: 'string' as const } },
        required: ['city'],
        additionalProperties: false,
      },
      parse: JSON.parse,
      function: (question: { city: string }) => {
        calls.push(question)
        return { sky: 'clear', degrees: 21 }
      },
    },
  })
  const messages = [{ role: 'user' as const, content: 'What is the weather in Paris?' }]

  test.each([false, true])('runTools calls the tool and sends its result back (stream %s)', async stream => {
    const calls: unknown[] = []
    const tools = [weather(calls)]
    const runner = stream
      ? client.chat.completions.runTools({ model: 'demo', messages, tools, stream })
      : client.chat.completions.runTools({ model: 'demo', messages, tools })
    expect(await runner.finalContent()).toContain('get_weather returned: {"sky":"clear","degrees":21}')
    expect(calls).toEqual([{ city: 'Paris' }])
    expect(runner.messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'tool', 'assistant'])
  })

  test('the pieces of a call add up to its arguments', async () => {
    rig.provider.script(exact({ toolCalls: [{ name: 'get_weather', arguments: ['{"ci', 'ty":"R', 'ome"}'] }] }))
    const { function: definition, type } = weather([])
    const { parse: _parse, function: _function, ...plain } = definition
    const stream = client.chat.completions.stream({ model: 'm', messages, tools: [{ type, function: plain }] })
    const { choices } = await stream.finalChatCompletion()
    expect(choices[0]).toMatchObject({
      finish_reason: 'tool_calls',
      message: { content: null, tool_calls: [{ function: { name: 'get_weather', arguments: '{"city":"Rome"}' } }] },
    })
  })

  const schema = {
    type: 'object',
    properties: {
      title: { type: 'string' },
      year: { type: 'integer', minimum: 1900 },
      kinds: { type: 'array', items: { enum: ['drama', 'comedy'] } },
    },
    required: ['title', 'year', 'kinds'],
    additionalProperties: false,
  }
  const request = {
    model: 'demo',
    messages: [{ role: 'user' as const, content: 'A film about Paris' }],
    response_format: { type: 'json_schema' as const, json_schema: { name: 'film', strict: true, schema } },
  }

  test('parse returns an object that the schema allows', async () => {
    const { choices } = await client.chat.completions.parse(request)
    const valid = new Ajv2020().compile(schema)
    expect(valid(choices[0]?.message.parsed), JSON.stringify(valid.errors)).toBe(true)
  })

  test('a stream gives the same object', async () => {
    const { choices } = await client.chat.completions.stream(request).finalChatCompletion()
    expect(new Ajv2020().validate(schema, choices[0]?.message.parsed)).toBe(true)
  })
})

describe('models', () => {
  test('the list and a single model', async () => {
    const models = []
    for await (const model of client.models.list()) models.push(model)
    expect(models.map(({ id }) => id).toSorted()).toEqual(['demo', 'm', 'thinking'])
    for (const model of models) {
      expect(model).toMatchObject({ object: 'model', created: expect.any(Number), owned_by: 'tollgate' })
    }
    expect(await client.models.retrieve('demo')).toMatchObject({ id: 'demo', object: 'model' })
    await expect(client.models.retrieve('nothing')).rejects.toMatchObject({ status: 404, code: 'model_not_found' })
  })
})

async function collect(stream: AsyncIterable<OpenAI.ChatCompletionChunk>) {
  const chunks: OpenAI.ChatCompletionChunk[] = []
  for await (const chunk of stream) chunks.push(chunk)
  const choices = chunks.flatMap(chunk => chunk.choices)
  return {
    chunks,
    text: choices.map(({ delta }) => delta.content ?? '').join(''),
    finish: choices.at(-1)?.finish_reason,
  }
}
