import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type ChatCompletion, type Chunk, definePlugin, type FactName, type RouteKind } from '#contract'
import { openBench } from '../../src/testing/index.ts'
import { countsOf } from '../../test/helpers/counts.ts'
import {
  type AnswerOptions,
  type FakeProvider,
  type ProviderRequest,
  sendJsonHead,
  startFakeProvider,
  stream,
  whole,
} from '../../test/helpers/fake-provider.ts'
import { type Account, shareGateways } from '../../test/helpers/in-process.ts'
import { chunksOf, contentOf, readSse } from '../../test/helpers/sse.ts'
import { readSettings } from '../../test/helpers/step.ts'
import { AnswerGuard } from './answer.ts'
import guard from './index.ts'
import { Findings, problemsOf, type RuleText, readRules } from './rules.ts'

const counts = countsOf('corpus')

/** Under another name than the built-in one. */
const here = definePlugin<never, FactName>({
  ...guard,
  name: 'guard-here',
  uses: [],
  needs: guard.needs as (settings: never, kind: RouteKind) => readonly FactName[],
  create: (settings: never, services, place) => guard.create(settings, services as never, place),
})

let provider: FakeProvider
beforeAll(async () => {
  provider = await startFakeProvider({ script: whole() })
})
afterAll(() => provider.close())

const answerWith = (options: AnswerOptions) => (request: ProviderRequest) =>
  (request.body?.['stream'] ? stream : whole)(options)

const IN_FRONT = ['guard', 'credits']

const share = shareGateways(() => ({ provider: provider.baseUrl, plugins: [here] }))
function start(
  rules: readonly object[],
  answer: AnswerOptions = {},
  order = IN_FRONT,
  settings: object = {},
): Promise<Account> {
  provider.script(answerWith(answer))
  return share({
    yaml: { providers: { p: { dialect: 'openai', base_url: provider.baseUrl, ...settings } } },
    steps: [
      { use: 'api-key' },
      { use: 'schema' },
      ...order.map(id => (id === 'guard' ? { use: 'guard-here', id, with: { rules } } : { use: id })),
      { use: 'route', with: { attempts: 1 } },
    ],
  })
}

const lastRequest = () => provider.requests.at(-1)!
const MAIL = 'ada@example.org'

describe('settings', () => {
  test.each<[string, unknown]>([
    ['no rules', {}],
    ['an empty list', { rules: [] }],
    ['a rule without a name', { rules: [{ pattern: 'a' }] }],
    ['a rule that looks for nothing', { rules: [{ name: 'a' }] }],
    ['a rule that looks for two things', { rules: [{ name: 'a', pattern: 'a', detect: 'email' }] }],
    ['the same without a name', { rules: [{ pattern: 'a', detect: 'email' }] }],
    ['a pattern without a name', { rules: [{ pattern: 'a' }] }],
    ['an unknown detector', { rules: [{ detect: 'passport' }] }],
    ['an unknown action', { rules: [{ detect: 'email', action: 'delete' }] }],
    ['a replacement that breaks JSON', { rules: [{ detect: 'email', replace: '"' }] }],
    ['a window that is too small', { rules: [{ detect: 'email' }], window: 3 }],
    ['an unknown name', { rules: [{ detect: 'email', colour: 1 }] }],
  ])('%s: refused', (_name, settings) => {
    expect(() => readSettings(guard, settings as Record<string, unknown>)).toThrow('guard:')
  })

  test.each<[string, object, string]>([
    [
      'a pattern without an upper bound',
      { name: 'a', pattern: 'a+' },
      '/rules/0/pattern: the pattern of "a" contains "a+", which has no upper bound',
    ],
    [
      'a match longer than the window',
      { name: 'a', pattern: 'a{300}' },
      '/rules/0/pattern: the pattern of "a" may match 300 characters, but "window" is 256',
    ],
  ])('%s: refused at load', (_name, rule, message) => {
    const settings = readSettings(guard, { rules: [rule] })
    expect(() => guard.create(settings as never, {} as never, { policy: 'p', id: 'guard' })).toThrow(message)
  })

  test('rules are compiled once for the same window', () => {
    const { rules } = readSettings(guard, { rules: [{ name: 'a', pattern: 'a{300}' }] }) as { rules: RuleText[] }
    expect(problemsOf(rules, 256)).toEqual([
      { at: '/rules/0/pattern', message: expect.stringContaining('may match 300 characters') },
    ])
    expect(problemsOf(rules, 512)).toEqual([])
    expect(readRules(rules, 512)[0]).toBe(readRules(rules, 512)[0])
  })

  test.each([
    ['replaces in requests', [{ detect: 'email' }], true],
    ['replaces in answers', [{ detect: 'email', on: 'answer' }], false],
    [
      'refuses and notes',
      [
        { detect: 'email', action: 'refuse' },
        { detect: 'iban', action: 'flag' },
      ],
      false,
    ],
  ])('after the hold, where it %s', async (_name, rules, isRefused) => {
    const steps = ['api-key', 'schema', 'credits', 'guard', 'route'].map(use =>
      use === 'guard' ? { use, with: { rules } } : { use },
    )
    const opened = openBench({ steps })
    if (isRefused) await expect(opened).rejects.toThrow(/"guard" must come before the step "credits".*this order works/)
    else await (await opened).close()
  })

  test('two rules with one name are refused at load', () => {
    const settings = readSettings(guard, {
      rules: [
        { detect: 'email', on: 'answer' },
        { detect: 'email', on: 'request' },
      ],
    })
    expect(() => guard.create(settings as never, {} as never, { policy: 'p', id: 'guard' })).toThrow(
      '/rules/1/detect: two rules have the name "email"',
    )
  })
})

describe('requests', () => {
  test('a refused request is neither sent nor charged, and its match is not reported', async () => {
    const gateway = await start([
      { name: 'project', pattern: 'project (?:x|zeus)', ignore_case: true, action: 'refuse' },
    ])
    const before = provider.requests.length
    const answer = await gateway.chat({
      messages: [
        { role: 'system', content: 'Hi' },
        { role: 'user', content: [{ type: 'text', text: 'About Project Zeus' }] },
      ],
    })
    expect(answer.status).toBe(400)
    expect(await answer.json()).toEqual({
      error: {
        code: 'content_filter',
        type: 'invalid_request_error',
        param: 'messages[1].content[0].text',
        message: 'The request was refused by the rule "project" of this gateway.',
      },
    })
    const line = await gateway.exchangeLine(answer.headers.get('x-request-id')!)
    expect(line).toMatchObject({ outcome: 'refused', code: 'content_filter' })
    expect(JSON.stringify(gateway.log)).not.toMatch(/zeus/i)
    expect(provider.requests.length).toBe(before)
    expect(gateway.balance()).toMatchObject({ held: 0n, posted: 10n ** 10n })
  })

  test('redacted text does not reach the provider, whatever its place; flagged text does', async () => {
    const gateway = await start([
      { detect: 'email', replace: '<mail>' },
      { name: 'shout', pattern: '[A-Z]{4,9}', action: 'flag' },
    ])
    const tool_calls = [{ id: 'call_1', type: 'function', function: { name: 'send', arguments: `{"to":"${MAIL}"}` } }]
    const answer = await gateway.chat({
      messages: [
        { role: 'system', content: `You are ${MAIL}` },
        { role: 'user', content: [{ type: 'text', text: `HELLO ${MAIL}, ${MAIL}` }] },
        { role: 'assistant', content: null, tool_calls },
        { role: 'tool', tool_call_id: 'call_1', content: `sent to ${MAIL}` },
      ],
      user: MAIL,
      metadata: { name: MAIL },
      seed: 7,
    })
    expect(answer.status).toBe(200)
    const { raw, body } = lastRequest()
    expect(raw.toString()).not.toContain('ada@')
    expect(body).toMatchObject({ seed: 7, user: '<mail>', metadata: { name: '<mail>' } })
    expect(body!['messages']).toEqual([
      { role: 'system', content: 'You are <mail>' },
      { role: 'user', content: [{ type: 'text', text: 'HELLO <mail>, <mail>' }] },
      {
        role: 'assistant',
        content: null,
        tool_calls: [{ id: 'call_1', type: 'function', function: { name: 'send', arguments: '{"to":"<mail>"}' } }],
      },
      { role: 'tool', tool_call_id: 'call_1', content: 'sent to <mail>' },
    ])
    const entry = gateway.receipt(answer)!.trail.find(({ step }) => step === 'guard')
    const note = 'in the request: email 7, shout 1'
    expect(entry).toEqual({ step: 'guard', plugin: 'guard-here', verdict: 'passed', note })
    expect(JSON.stringify([gateway.receipt(answer)!.trail, gateway.log])).not.toContain('ada@')
  })

  test('a request without matches is sent unchanged', async () => {
    const gateway = await start([{ detect: 'email' }, { detect: 'credit-card', on: 'answer' }])
    const messages = [{ role: 'user', content: '4111 1111 1111 1111' }]
    await gateway.chat({ messages })
    expect(lastRequest().body!['messages']).toEqual(messages)
  })
})

describe('answers', () => {
  const tokens = ['Write ', 'to a', 'da@exa', 'mple', '.org', ', or ', 'not', '.']

  test.each([
    ['whole', false],
    ['as a stream', true],
  ])('%s: a match is never sent, and the charge is as without the guard', async (_name, isStream) => {
    const gateway = await start([{ detect: 'email', on: 'answer' }], {
      tokens,
      reasoning: ['I know', ' ada@', 'example.org'],
    })
    const answer = await gateway.chat({ stream: isStream, messages: [{ role: 'user', content: MAIL }] })
    const text = await answer.clone().text()
    expect(text).not.toContain('ada@')
    if (isStream) {
      const events = chunksOf(await readSse(answer.clone()))
      expect(contentOf(await readSse(answer))).toBe('Write to [email], or not.')
      const thoughts = events.map(({ choices: [choice] }) => choice?.delta.reasoning_content ?? '').join('')
      expect(thoughts).toBe('I know [email]')
      const kinds = events.map(({ choices: [choice] }) =>
        choice?.delta.content ? 'c' : choice?.delta.reasoning_content ? 'r' : '',
      )
      // The reasoning is sent to its end before the content begins.
      expect(kinds.join('')).toMatch(/^r+c+$/)
      expect(events.filter(({ choices: [choice] }) => choice?.finish_reason).length).toBe(1)
    } else {
      const { message, finish_reason } = ((await answer.json()) as ChatCompletion).choices[0]!
      expect([message.content, message.reasoning_content, finish_reason]).toEqual([
        'Write to [email], or not.',
        'I know [email]',
        'stop',
      ])
    }
    expect(lastRequest().body!['messages']).toEqual([{ role: 'user', content: MAIL }])
    expect(gateway.receipt(answer)).toMatchObject({ outcome: 'answered', source: 'reported', usage: { output: 11 } })
  })

  test.each([
    ['whole', false],
    ['as a stream', true],
  ])('%s: calls of tools, each by itself, with several choices', async (_name, isStream) => {
    const toolCalls = [
      { name: 'send', arguments: ['{"to":"ad', 'a@example', '.org"}'] },
      { name: 'keep', arguments: ['{"at":"ada@', 'example.org"', '}'] },
    ]
    const gateway = await start([{ detect: 'email' }], { toolCalls })
    const answer = await gateway.chat({ stream: isStream, n: 2 })
    const calls = ['', '', '', '']
    if (isStream) {
      for (const { choices } of chunksOf(await readSse(answer))) {
        for (const { index, delta } of choices) {
          for (const call of delta.tool_calls ?? []) calls[index * 2 + call.index!] += call.function?.arguments ?? ''
        }
      }
    } else {
      const { choices } = (await answer.json()) as ChatCompletion
      for (const { index, message } of choices) {
        for (const [i, call] of message.tool_calls!.entries()) calls[index * 2 + i] = call.function!.arguments!
      }
    }
    expect(calls).toEqual(['{"to":"[email]"}', '{"at":"[email]"}', '{"to":"[email]"}', '{"at":"[email]"}'])
  })

  test('after credits the receipt has the matches of the answer, and a refused whole answer costs nothing', async () => {
    const gateway = await start(
      [
        { detect: 'email', on: 'answer' },
        { name: 'not', pattern: 'never', action: 'refuse' },
      ],
      { tokens },
      ['credits', 'guard'],
    )
    const answer = await gateway.chat()
    const trail = gateway.receipt(answer)!.trail
    expect(trail.find(({ step }) => step === 'guard')!.note).toBe('in the answer: email 1')
    provider.script(answerWith({ tokens: ['never'] }))
    const refused = await gateway.chat()
    expect(refused.status).toBe(400)
    expect(gateway.receipt(refused)).toMatchObject({ charged: 0n, code: 'content_filter' })
  })

  test.each([null, undefined, ''])('a whole answer with the finish reason %o is not cut short', async finish => {
    const choice = { index: 0, message: { role: 'assistant', content: 'Write to joe' } }
    const said = { ...choice, ...(finish === undefined ? {} : { finish_reason: finish }) }
    const gateway = await start([{ detect: 'email', on: 'answer' }], {}, IN_FRONT, { missing_finish: 'stop' })
    provider.script({
      name: 'no finish',
      async run(call) {
        const text = JSON.stringify({ id: 'x', object: 'chat.completion', created: 1, model: 'm', choices: [said] })
        sendJsonHead(call, 200, text)
        await call.end(text)
      },
    })
    const answer = (await (await gateway.chat()).json()) as ChatCompletion
    expect(answer.choices[0]!.message.content).toBe('Write to joe')
    expect(answer.choices[0]!.finish_reason).toBe('stop')
  })

  test.each([{ stream: false }, { stream: true }])(
    'JSON stays JSON, in calls and where it was asked for, in requests too ($stream)',
    async mode => {
      const pieces = ['{"order": ', '41111111', '11111111', ', "card": "4111', '111111111111"}']
      const redacted = '{"order": 1111111111111111, "card": "[credit-card]"}'
      const gateway = await start([{ detect: 'credit-card' }], {
        toolCalls: [{ name: 'refund', arguments: pieces }],
      })
      const said = async (body: object) => {
        const answer = await gateway.chat({ ...body, ...mode })
        if (!mode.stream) return ((await answer.json()) as ChatCompletion).choices[0]!.message
        const deltas = chunksOf(await readSse(answer)).flatMap(chunk => chunk.choices.map(({ delta }) => delta))
        const calls = deltas.flatMap(delta => delta.tool_calls ?? [])
        const content = deltas.map(delta => delta.content ?? '').join('')
        return { content, tool_calls: [{ function: { arguments: calls.map(c => c.function?.arguments).join('') } }] }
      }
      const tools = [{ type: 'function', function: { name: 'refund', parameters: { type: 'object' } } }]
      const tool_calls = [{ id: 'c', type: 'function', function: { name: 'refund', arguments: pieces.join('') } }]
      const messages = [
        { role: 'user', content: 'Hi' },
        { role: 'assistant', content: null, tool_calls },
        { role: 'tool', tool_call_id: 'c', content: 'It costs 4111111111111111.' },
      ]
      expect((await said({ tools, messages })).tool_calls![0]!.function!.arguments).toBe(redacted)
      const [, asked, result] = lastRequest().body!['messages'] as typeof messages
      expect(asked!.tool_calls![0]!.function.arguments).toBe(redacted)
      expect(result!.content).toBe('It costs [credit-card].')
      provider.script(answerWith({ tokens: pieces }))
      expect((await said({ response_format: { type: 'json_object' } })).content).toBe(redacted)
      expect((await said({})).content).toBe('{"order": [credit-card], "card": "[credit-card]"}')
    },
  )

  test('a refused whole answer is an error', async () => {
    const gateway = await start([{ detect: 'email', action: 'refuse' }], { tokens })
    const answer = await gateway.chat()
    expect(answer.status).toBe(400)
    expect(await answer.json()).toMatchObject({
      error: { code: 'content_filter', message: 'The answer was stopped by the rule "email" of this gateway.' },
    })
    expect(gateway.balance().held).toBe(0n)
    expect(JSON.stringify(gateway.log)).not.toContain('ada@')
  })

  test('a refused stream ends with an error, and no part of the match was sent', async () => {
    const gateway = await start([{ detect: 'email', action: 'refuse' }], { tokens })
    const answer = await gateway.chat({ stream: true })
    const text = await answer.text().catch(error => String(error))
    expect(text).not.toMatch(/ada|exa|finish_reason":"stop|\[DONE\]/)
    const line = await gateway.exchangeLine(answer.headers.get('x-request-id')!)
    expect(line).toMatchObject({ outcome: 'failed', code: 'content_filter' })
    expect(gateway.balance().held).toBe(0n)
  })
})

describe('a stream, chunk by chunk', () => {
  const rulesOf = (...texts: Partial<RuleText>[]) =>
    readRules(
      texts.map((text): RuleText => ({ ignore_case: false, on: 'both', action: 'redact', ...text })),
      256,
    )
  const chunk = (choices: Chunk['choices'], usage?: Chunk['usage']): Chunk => ({
    id: 'c',
    object: 'chat.completion.chunk',
    created: 0,
    model: 'm',
    choices,
    ...(usage ? { usage } : {}),
  })
  const EMAIL = rulesOf({ detect: 'email' }, { name: 'word', pattern: 'secret' })

  test('slices of a chunk give the same result as the whole', () => {
    const text = fc
      .array(fc.constantFrom(MAIL, 'secret', 'sec', 'ret', ' ', 'x', '😀'), { minLength: 1, maxLength: 6 })
      .map(parts => parts.join(''))
    const delta = fc.oneof(
      fc.record({ content: text }),
      fc.record({ reasoning_content: text, content: text }),
      text.map(all => ({ tool_calls: [{ index: 0, function: { arguments: all } }] })),
    )
    const choices = fc
      .array(fc.tuple(fc.nat(1), delta, fc.constantFrom(null, null, 'stop')), { maxLength: 2 })
      .map(all => all.map(([index, delta, finish_reason]) => ({ index, delta, finish_reason })))
    fc.assert(
      fc.property(fc.array(choices, { maxLength: 6 }), chunks => {
        const [one, other] = [new Findings(), new Findings()]
        const [atOnce, sliced] = [new AnswerGuard(EMAIL, one), new AnswerGuard(EMAIL, other)]
        for (const each of chunks.map(choices => chunk(choices))) {
          const work = sliced.chunkInSlices(each)
          let step = work.next()
          while (!step.done) step = work.next()
          expect(step.value).toEqual(atOnce.chunk(each))
        }
        const summary = (findings: Findings) => findings.takeSummary('answer')?.split(/: |, /).toSorted()
        expect(summary(other)).toEqual(summary(one))
      }),
      { numRuns: counts(75, 10_000) },
    )
  })

  test('however the text is cut, the whole redacted text is sent, and no part of a match is sent early', () => {
    const words = [MAIL, 'secret', 'sec', ' ', 'a', '@', '😀', 'ret', '. ', 'x.y@z.de']
    fc.assert(
      fc.property(
        fc.array(
          fc.tuple(
            fc.nat(1),
            fc.constantFrom('content', 'reasoning_content'),
            fc.array(fc.constantFrom(...words), { minLength: 1, maxLength: 6 }),
          ),
          { minLength: 1, maxLength: 4 },
        ),
        fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 20 }),
        (texts, sizes) => {
          const one = new AnswerGuard(EMAIL, new Findings())
          const out = new Map<string, string>()
          const take = (chunks: readonly Chunk[]) => {
            for (const { choices } of chunks) {
              for (const { index, delta } of choices) {
                for (const name of ['content', 'reasoning_content'] as const) {
                  if (delta[name]) out.set(`${index}${name}`, (out.get(`${index}${name}`) ?? '') + delta[name])
                }
              }
            }
          }
          const expected = new Map<string, string>()
          // The reasoning of each choice before its content, as providers send them.
          const sorted = [
            ...new Map(
              texts.map(([index, name, parts]) => [`${index}${name}`, { index, name, text: parts.join('') }]),
            ).values(),
          ].sort((a, b) => b.name.localeCompare(a.name))
          let i = 0
          for (const { index, name, text } of sorted) {
            const all = new Findings().sieves(EMAIL, null).all(text)
            if (all) expected.set(`${index}${name}`, all)
            for (let at = 0; at < text.length; ) {
              const size = sizes[i++ % sizes.length]!
              take(one.chunk(chunk([{ index, delta: { [name]: text.slice(at, at + size) }, finish_reason: null }])))
              at += size
            }
          }
          for (const index of [0, 1]) take(one.chunk(chunk([{ index, delta: {}, finish_reason: 'stop' }])))
          expect(out).toEqual(expected)
        },
      ),
      { numRuns: counts(75, 10_000) },
    )
  })

  test('no letter of a match is sent, letter by letter and with interleaved choices and calls', () => {
    const texts = fc.array(fc.constantFrom(MAIL, 'secret', 'sec', 'x', ' ', '😀', '"}'), { minLength: 1, maxLength: 5 })
    const places = ['0 content', '1 content', '0 call 0', '1 call 0', '2 call 0'] as const
    fc.assert(
      fc.property(
        fc.tuple(texts, texts, texts, texts, texts),
        fc.infiniteStream(fc.nat(4)),
        fc.integer({ min: 1, max: 3 }),
        (all, turns, size) => {
          // Each choice continues one text; the choices arrive in any order.
          const rest = new Map<string, string>(places.map((place, i) => [place, all[i]!.join('')]))
          const expected = new Map(
            [...rest].map(([place, text]) => [place, new Findings().sieves(EMAIL, null).all(text)]),
          )
          const one = new AnswerGuard(EMAIL, new Findings())
          const out = new Map<string, string>(places.map(place => [place, '']))
          const take = (chunks: readonly Chunk[]) => {
            for (const { index, delta } of chunks.flatMap(({ choices }) => choices)) {
              const call = delta.tool_calls?.[0]?.function?.arguments ?? ''
              for (const [place, text] of [
                [`${index} content`, delta.content ?? ''],
                [`${index} call 0`, call],
              ] as const) {
                if (text === '') continue
                out.set(place, out.get(place)! + text)
                expect(expected.get(place)!.startsWith(out.get(place)!)).toBe(true)
              }
            }
          }
          for (const turn of turns) {
            const open = [...rest].filter(([, text]) => text !== '')
            if (open.length === 0) break
            // The content of a choice ends before its call begins.
            const [place, text] =
              open.filter(([name]) => !name.includes('call') || !rest.get(`${name[0]} content`))[turn % 3] ?? open[0]!
            const [index, kind] = place.split(' ')
            const piece = [...text].slice(0, size).join('')
            rest.set(place, text.slice(piece.length))
            const delta =
              kind === 'content' ? { content: piece } : { tool_calls: [{ index: 0, function: { arguments: piece } }] }
            take(one.chunk(chunk([{ index: Number(index), delta, finish_reason: null }])))
          }
          for (const index of [0, 1, 2]) take(one.chunk(chunk([{ index, delta: {}, finish_reason: 'stop' }])))
          expect(out).toEqual(expected)
        },
      ),
      { numRuns: counts(75, 10_000) },
    )
  })

  /** Every second piece is of the other text. */
  test.each([
    ['another text', ['to ada@exa', 'hm', 'mple.org now'], 'to ada@exa[email] now'],
    ['a whole match', ['to ada@example.org', 'hm', ' now'], 'to [email] now'],
    ['no match', ['to ada', 'hm', ' and bob'], 'to ada and bob'],
    ['two texts', ['sec', 'hm', 're', 'hm', 't, secret'], 'secre[word], [word]'],
  ])('a match across %s is found when the text continues', (_name, pieces, expected) => {
    for (const [a, b] of [
      ['content', 'reasoning_content'],
      ['reasoning_content', 'content'],
      ['call 0', 'call 1'],
    ] as const) {
      const one = new AnswerGuard(EMAIL, new Findings())
      const deltaOf = (place: string, text: string) =>
        place.startsWith('call')
          ? { tool_calls: [{ index: Number(place.at(-1)), function: { arguments: text } }] }
          : { [place]: text }
      const out = [
        ...pieces.flatMap((text, turn) =>
          one.chunk(chunk([{ index: 0, delta: deltaOf(turn % 2 === 0 ? a : b, text), finish_reason: null }])),
        ),
        ...one.chunk(chunk([{ index: 0, delta: {}, finish_reason: 'stop' }])),
      ]
      const said = out
        .flatMap(({ choices }) => choices)
        .map(({ delta }) => {
          if (!a.startsWith('call')) return delta[a] ?? ''
          return delta.tool_calls?.find(({ index }) => index === 0)?.function?.arguments ?? ''
        })
      expect(said.join('')).toBe(expected)
    }
  })

  test('a rule refuses a match across a gap', () => {
    const one = new AnswerGuard(rulesOf({ name: 'word', pattern: 'secret', action: 'refuse' }), new Findings())
    const say = (delta: Chunk['choices'][number]['delta']) =>
      one.chunk(chunk([{ index: 0, delta, finish_reason: null }]))
    say({ content: 'sec' })
    say({ reasoning_content: 'hm' })
    expect(() => say({ content: 'ret!' })).toThrow('by the rule "word"')
  })

  test('two names of one text do not end each other', () => {
    const one = new AnswerGuard(EMAIL, new Findings())
    const out = ['se', 'cr', 'et!'].flatMap(text =>
      one.chunk(chunk([{ index: 0, delta: { reasoning: text, reasoning_content: text }, finish_reason: null }])),
    )
    expect(out.map(({ choices: [choice] }) => choice!.delta)).toEqual([
      { reasoning: '[word]!', reasoning_content: '[word]!' },
    ])
  })

  test('an unfinished text is sent before the usage; logprobs, which repeat it, are removed', () => {
    const one = new AnswerGuard(EMAIL, new Findings())
    const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 }
    const out = [
      ...one.chunk(
        chunk([
          {
            index: 1,
            delta: { role: 'assistant', content: 'se' },
            finish_reason: null,
            logprobs: { content: [{ token: 'se' }] },
          },
        ]),
      ),
      ...one.chunk(chunk([], usage)),
    ]
    expect(
      out.map(({ choices, usage }) => [choices[0]?.delta ?? null, choices[0]?.['logprobs'] ?? null, usage ?? null]),
    ).toEqual([
      [{ role: 'assistant', content: '' }, null, null],
      [{ content: 'se' }, null, null],
      [null, null, usage],
    ])
  })

  test('parts of lists continue the element that their index names', () => {
    const one = new AnswerGuard(EMAIL, new Findings())
    const part = (index: number, text: string) =>
      chunk([
        {
          index: 0,
          delta: { reasoning_details: [{ type: 'reasoning.text', index, text, data: 'secret' }] },
          finish_reason: null,
        },
      ])
    const out = [
      ...one.chunk(part(0, 'a sec')),
      ...one.chunk(part(0, 'ret se')),
      ...one.chunk(part(1, 'cret')),
      ...one.chunk(chunk([{ index: 0, delta: {}, finish_reason: 'stop' }])),
    ]
    const details = out.flatMap(
      ({ choices: [choice] }) => (choice!.delta['reasoning_details'] ?? []) as { index: number; text: string }[],
    )
    expect(details.map(({ index, text }) => [index, text])).toEqual([
      [0, 'a '],
      [0, '[word] '],
      [0, 'se'],
      [1, ''],
      [1, 'cret'],
    ])
  })
})

test.each<[json: string, pattern: string, redacted: string]>([
  ['{"a": -12.50}', '[0-9]{2}\\.[0-9]{2}', '{"a": -11.11}'],
  ['{"a": 123456}', '[0-9]{4}', '{"a": 111156}'],
  ['{"a": 0.5e10, "b": [7]}', '[0-9]', '{"a": 1.1e11, "b": [1]}'],
  ['{"a\\\\": 12, "b\\": 12": "12"}', '12', '{"a\\\\": 11, "b\\": [p]": "[p]"}'],
  ['{"12": null}', '12|nothing', '{"[p]": null}'],
])('in JSON %s the pattern %s leaves JSON', (json, pattern, redacted) => {
  const text: RuleText = { name: 'p', pattern, ignore_case: false, on: 'both', action: 'redact' }
  for (let cut = 0; cut <= json.length; cut++) {
    const sieves = new Findings().sieves(readRules([text], 256), null, true)
    expect(sieves.push(json.slice(0, cut)) + sieves.all(json.slice(cut))).toBe(redacted)
  }
  expect(() => JSON.parse(json)).not.toThrow()
  expect(() => JSON.parse(redacted)).not.toThrow()
})
