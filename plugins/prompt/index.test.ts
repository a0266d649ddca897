import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Account, Chat, ChatMessage, Model } from '#contract'
import { BUILT_IN } from '../../src/loader/builtin.ts'
import { openBench } from '../../src/testing/index.ts'
import { countsOf } from '../../test/helpers/counts.ts'
import { errorAnswer, exact, startFakeProvider } from '../../test/helpers/fake-provider.ts'
import { startInProcess } from '../../test/helpers/in-process.ts'
import { expectWithin } from '../../test/helpers/promised.ts'
import { createSteps, readSettings } from '../../test/helpers/step.ts'
import prompt from './index.ts'

const counts = countsOf('corpus')

const clock = { now: () => Date.UTC(2026, 1, 3, 23, 59, 59, 999) }
const facts = { account: { plan: 'pro' } as Account, model: { id: 'chat-small' } as Model }

const system = { role: 'system', content: 'Be kind.' }
const user = { role: 'user', content: 'Hello' }
const theirs = { role: 'system', content: 'Be rude.' }
const developer = { role: 'developer', content: 'Be brief.' }

function chatOf(messages: readonly ChatMessage[]): Chat {
  const body = { model: 'm', messages, temperature: 0.5 }
  const bytes = Buffer.from(JSON.stringify(body))
  return { body, bytes, stream: false, includeUsage: false, choices: 1, requestedCap: null, cap: 100 }
}

/** The request after the step, with its note in the trail. */
async function sent(settings: Record<string, unknown>, messages: readonly ChatMessage[], more: object = {}) {
  const chat = chatOf(messages)
  const before = chat.body
  const untouched = JSON.stringify(before)
  const steps = createSteps([{ use: prompt, with: { system: 'Be kind.', ...settings } }], { clock })
  const result = await steps({ facts: { ...facts, chat, ...more } })
  // The original request, which a log may have, is unchanged.
  expect(JSON.stringify(before)).toBe(untouched)
  expect(JSON.parse(chat.bytes.toString())).toEqual(chat.body)
  return { ...result, chat, note: result.exchange.trail[0]?.note }
}

describe('settings', () => {
  test.each<[string, Record<string, unknown>]>([
    ['nothing', {}],
    ['an empty text', { system: '' }],
    ['a text without end', { system: 'x'.repeat(100_001) }],
    ['an unknown placeholder', { system: 'You speak to {{account.name}}.' }],
    ['a placeholder with a filter', { system: '{{ account.plan | upper }}' }],
    ['a placeholder that is not closed', { system: '{{date' }],
    ['three braces', { system: '{{{date}}}' }],
    ['a place that is nowhere', { system: 'a', position: 'first' }],
    ['to replace what is missing', { system: 'a', position: 'replace', only_if_missing: true }],
    ['an unknown name', { system: 'a', text: 'b' }],
  ])('%s is refused', (_name, settings) => {
    expect(() => readSettings(prompt, settings)).toThrow('prompt:')
  })

  test.each<[string, readonly string[]]>([
    ['Be kind. {"a": {}} {', ['chat']],
    ['{{date}}', ['chat']],
    ['{{ account.plan }}{{account.plan}}', ['chat', 'account']],
    ['{{model}} on {{date}} for {{account.plan}}', ['chat', 'account', 'model']],
  ])('%s needs %o', (text, needs) => {
    const read = readSettings(prompt, { system: text })
    expect((prompt.needs as (settings: unknown) => readonly string[])(read)).toEqual(needs)
  })

  test('a hostile text is validated at once', () => {
    const startedAt = performance.now()
    for (const piece of ['{', '{ ', '{{date}}', '{{date', 'a{', '{{ ', 'é{']) {
      const text = `${piece.repeat(100_000 / piece.length - 2)}{{`
      expect(() => readSettings(prompt, { system: text })).toThrow('prompt:')
    }
    expectWithin(performance.now() - startedAt, 1_000)
  })
})

describe('a system message', () => {
  test.each<[string, Record<string, unknown>, ChatMessage[], ChatMessage[]]>([
    ['before', {}, [user], [system, user]],
    ['before those of the client', {}, [theirs, user], [system, theirs, user]],
    ['after', { position: 'after' }, [theirs, user], [theirs, user, system]],
    ['in place of none', { position: 'replace' }, [user], [system, user]],
    ['in place of several', { position: 'replace' }, [theirs, user, developer, user], [system, user, user]],
    ['in place of all', { position: 'replace' }, [theirs], [system]],
    ['where it is missing', { only_if_missing: true }, [user], [system, user]],
    ['where it is missing, after', { only_if_missing: true, position: 'after' }, [user], [user, system]],
    ['not where there is one', { only_if_missing: true }, [user, theirs], [user, theirs]],
    ['not where there is one for developers', { only_if_missing: true }, [developer, user], [developer, user]],
  ])('%s', async (_name, settings, messages, expected) => {
    const { chat, note, passed } = await sent(settings, messages)
    expect(passed).toBe(true)
    expect(chat.body).toEqual({ model: 'm', messages: expected, temperature: 0.5 })
    expect(note).toBe(expected.includes(system) ? undefined : 'the client sent instructions of its own')
  })

  test('has its placeholders filled in, once', async () => {
    const text = 'On {{date}} {{ model }} serves the plan {{account.plan}}; {date} {{model}}'
    const account = { plan: '{{model}} $& $1' } as Account
    const { chat } = await sent({ system: text }, [user], { account })
    expect(chat.body.messages[0]!.content).toBe(
      'On 2026-02-03 chat-small serves the plan {{model}} $& $1; {date} chat-small',
    )
  })

  test('after `credits` it is refused at load', async () => {
    const steps = ['api-key', 'schema', 'credits', 'prompt', 'route'].map(use =>
      use === 'prompt' ? { use, with: { system: 'Be kind.' } } : { use },
    )
    await expect(openBench({ steps })).rejects.toThrow(
      /"prompt" must come before the step "credits" \(line \d+\): it changes the source of hold[\s\S]*this order works: api-key, schema, prompt, credits, route/,
    )
  })

  const pair = (first: object, second: object) =>
    openBench({
      steps: [
        { use: 'api-key' },
        { use: 'schema' },
        { use: 'prompt', id: 'house', with: { system: 'Be kind.' }, ...first },
        { use: 'prompt', id: 'second', with: { system: 'Be brief.', ...second } },
        { use: 'credits' },
        { use: 'route' },
      ],
    })

  test.each<[string, object, object]>([
    ['in place of the client’s', {}, { position: 'replace' }],
    ['only where the client has none', {}, { only_if_missing: true }],
    ['after one with a condition', { when: 'account.plan == "free"' }, { position: 'replace' }],
  ])('%s is refused at load after another prompt', async (_name, first, second) => {
    await expect(pair(first, second)).rejects.toThrow(
      /"second" must come before the step "house" \(line \d+\): it would mistake the content of that step for the client's; this order works: api-key, schema, second, house, credits, route/,
    )
  })

  test.each<[string, object, object]>([
    ['one that adds', {}, { position: 'after' }],
    ['one after a prompt that is off', { mode: 'off' }, { position: 'replace' }],
    ['one after a prompt in shadow', { mode: 'shadow' }, { only_if_missing: true }],
  ])('%s is allowed after another prompt', async (_name, first, second) => {
    await using bench = await pair(first, second)
    expect((await bench.chat()).status).toBe(200)
  })

  test('two steps that replace cannot both be first', async () => {
    const replacing = { with: { system: 'Be kind.', position: 'replace' } }
    await expect(pair(replacing, { position: 'replace' })).rejects.toThrow(
      /"second" must come before .*remove one of the two/,
    )
  })

  test('is never added after the hold, which would be too small', async () => {
    const { refusal, passed, reports } = await sent({}, [user], { hold: 5n })
    expect(passed).toBe(false)
    expect(refusal).toMatchObject({ code: 'plugin_error', status: 500 })
    expect(String(reports[0]!.error)).toContain('credit was held')
  })

  test('changes nothing else of any request', async () => {
    const role = fc.constantFrom('system', 'developer', 'user', 'assistant', 'tool')
    const content = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.constant(null),
      fc.array(fc.record({ type: fc.string() })),
    )
    const messages = fc.array(fc.record({ role, content }), { maxLength: 8 }) as fc.Arbitrary<ChatMessage[]>
    const position = fc.constantFrom('before', 'after', 'replace')
    await fc.assert(
      fc.asyncProperty(messages, position, async (before, position) => {
        const { chat } = await sent({ position }, before)
        const kept = position === 'replace' ? before.filter(each => !/system|developer/.test(each.role)) : before
        const after = position === 'after' ? [...kept, system] : [system, ...kept]
        expect(chat.body.messages).toEqual(after)
      }),
      { numRuns: counts(50, 20_000) },
    )
  })
})

describe('in the gateway', () => {
  const long = 'Be kind. '.repeat(100)
  const start = (provider: string, steps: readonly object[], yaml = {}) =>
    startInProcess({
      provider,
      plugins: [prompt].filter(plugin => !BUILT_IN.includes(plugin)),
      steps: [{ use: 'api-key' }, { use: 'schema' }, ...steps, { use: 'credits' }, { use: 'route' }],
      yaml,
    })

  test('the provider gets it, whole and as a stream, and the hold pays for it', async () => {
    await using provider = await startFakeProvider({ script: exact() })
    await using without = await start(provider.baseUrl, [])
    await using gateway = await start(provider.baseUrl, [{ use: 'prompt', with: { system: long } }])
    const plain = await without.chat({ max_tokens: 10 })
    await plain.text()
    for (const stream of [false, true]) {
      const answer = await gateway.chat({ max_tokens: 10, stream })
      expect(answer.status).toBe(200)
      await answer.text()
      expect(provider.requests.at(-1)!.body!['messages']).toEqual([{ role: 'system', content: long }, user])
      await gateway.exchangeLine(answer.headers.get('x-request-id')!)
      // A prompt token costs 1,000 nano-dollars, and no text has more tokens than bytes.
      const more = gateway.receipt(answer)!.held - without.receipt(plain)!.held
      expect(more).toBeGreaterThanOrEqual(BigInt(long.length) * 1_000n)
    }
    expect(gateway.balance().held).toBe(0n)
  })

  const routes = ['chat/completions', 'messages', 'responses'].map(path => ({ path: `/v1/${path}`, policy: 'test' }))
  const post = (gateway: { url: string; key: string }, path: string, body: object) =>
    fetch(`${gateway.url}/v1/${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${gateway.key}` },
      body: JSON.stringify({ model: 'm', ...body }),
    })
  const said = [user, { role: 'user', content: [{ type: 'text', text: 'Project Zeus' }] }]
  const given = [user, { role: 'user', content: [{ type: 'input_text', text: 'Project Zeus' }] }]

  test.each<[string, Record<string, unknown>]>([
    ['before', {}],
    ['in place of instructions', { position: 'replace' }],
    ['behind', { position: 'after' }],
  ])('an error of a later step names the place in the request as it was sent: %s', async (_name, more) => {
    await using provider = await startFakeProvider({ script: exact() })
    const rules = [{ detect: 'email' }, { name: 'zeus', pattern: 'Zeus', action: 'refuse' }]
    await using gateway = await start(
      provider.baseUrl,
      [
        { use: 'prompt', with: { system: 'Be kind.', ...more } },
        { use: 'prompt', id: 'more', with: { system: 'Be brief.' } },
        { use: 'guard', id: 'first', with: { rules: [{ detect: 'email' }] } },
        { use: 'guard', with: { rules } },
      ],
      { routes },
    )
    for (const [path, body, param] of [
      ['chat/completions', { messages: [theirs, ...said] }, 'messages[2].content[0].text'],
      [
        'chat/completions',
        { messages: [{ role: 'user', content: 'a@example.com' }, ...said] },
        'messages[2].content[0].text',
      ],
      ['messages', { max_tokens: 10, system: 'Be rude.', messages: said }, 'messages[1].content'],
      ['responses', { instructions: 'Be rude.', input: given }, 'input[1].content'],
    ] as const) {
      const answer = await post(gateway, path, body)
      const { error } = (await answer.json()) as { error: { code: string; param: string } }
      expect([path, answer.status, error.code]).toEqual([path, 400, 'content_filter'])
      expect(error.param).toBe(param)
    }
    expect(provider.requests).toEqual([])
  })

  test('an error in the added message names no place', async () => {
    await using provider = await startFakeProvider({ script: exact() })
    const rules = [{ name: 'kind', pattern: 'kind', action: 'refuse' }]
    const steps = [
      { use: 'prompt', with: { system: 'Be kind.', position: 'replace' } },
      { use: 'guard', with: { rules } },
    ]
    await using gateway = await start(provider.baseUrl, steps)
    const answer = await gateway.chat({ messages: [theirs, user] })
    expect(await answer.json()).toMatchObject({ error: { code: 'content_filter', param: null } })
  })

  test('a place in an error of the provider is that of the request as it was sent', async () => {
    const message = "Invalid 'messages[1].content': look at messages.[0] and messages[1]."
    await using provider = await startFakeProvider({
      script: errorAnswer(400, { message, param: 'messages[1].content' }),
    })
    await using gateway = await start(provider.baseUrl, [{ use: 'prompt', with: { system: 'Be kind.' } }])
    const answer = await gateway.chat()
    expect(await answer.json()).toMatchObject({
      error: {
        message: "Invalid 'messages[0].content': look at a message of this gateway and messages[0].",
        param: 'messages[0].content',
      },
    })
  })

  test('requests of another format get it too', async () => {
    await using provider = await startFakeProvider({ script: exact() })
    const routes = [
      { path: '/v1/chat/completions', policy: 'test' },
      { path: '/v1/messages', policy: 'test' },
    ]
    const step = { use: 'prompt', with: { system: 'You are {{model}}.', position: 'replace' } }
    await using gateway = await start(provider.baseUrl, [step], { routes })
    const answer = await fetch(`${gateway.url}/v1/messages`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-api-key': gateway.key },
      body: JSON.stringify({ model: 'm', max_tokens: 10, system: 'Be rude.', messages: [user] }),
    })
    expect(answer.status).toBe(200)
    await answer.text()
    const [first, second, ...rest] = provider.requests[0]!.body!['messages'] as ChatMessage[]
    expect(first).toEqual({ role: 'system', content: 'You are m.' })
    expect(second!.role).toBe('user')
    expect(rest).toEqual([])
  })
})
