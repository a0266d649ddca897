/** Where tags come from, which values they may have, and how many. */
import { describe, expect, test } from 'vitest'
import { type Account, type Facts, headerBytes, type Key, type KeyValue } from '#contract'
import { createBuckets } from '../../src/state/buckets.ts'
import { createKeyValue } from '../../src/state/key-value.ts'
import { openBench } from '../../src/testing/index.ts'
import { createSteps, readSettings, type StepRequest } from '../../test/helpers/step.ts'
import tags from './index.ts'

const key = { id: 'key_1', accountId: 'acc_1', name: 'laptop' } as Key
const account = { id: 'acc_1', name: 'ada' } as Account
const DAY_MS = 86_400_000

type Given = Record<string, Record<string, unknown>>

function tagging(given: Given, services: { kv?: KeyValue } = {}) {
  const clock = { time: 1_000_000, now: () => clock.time }
  const parts = { clock, buckets: createBuckets(clock), kv: services.kv ?? createKeyValue(clock, 1e6) }
  const run = createSteps([{ use: tags, with: { tags: given } }], parts)
  const send = async (request: StepRequest = {}, facts: Partial<Facts> = {}) => {
    const { exchange, refusal } = await run({ ...request, facts: { key, account, ...facts } })
    return { tags: exchange.tags, refusal }
  }
  return { clock, send }
}

const check = (given: Given) =>
  (tags.check as (settings: unknown, place: unknown) => unknown)(readSettings(tags, { tags: given }), {})

describe('settings that are refused', () => {
  test.each<[string, Given]>([
    ['no tag', {}],
    ['a name with a capital', { Team: { from: 'key' } }],
    ['a name with a dash', { 'x-team': { from: 'key' } }],
    ['no source', { team: {} }],
    ['an empty list of sources', { team: { from: [] } }],
    ['an unknown source', { team: { from: 'cookie x' } }],
    ['a claim without a name', { team: { from: 'claim' } }],
    ['a header with a space', { team: { from: 'header x team' } }],
    ['metadata of metadata', { team: { from: 'metadata.a.b' } }],
    ['no allowed value', { team: { from: 'key', values: [] } }],
    ['an invisible value', { team: { from: 'key', values: ['a\u0007'] } }],
    ['a default with a space', { team: { from: 'key', default: ' a' } }],
    ['values and how many', { team: { from: 'key', values: ['a'], at_most: 2 } }],
    ['none at most', { team: { from: 'key', at_most: 0 } }],
    ['an unknown word', { team: { from: 'key', vales: ['a'] } }],
  ])('%s', (_name, given) => {
    expect(() => readSettings(tags, { tags: given })).toThrow('tags:')
  })

  test.each<[string, Given, string, string]>([
    [
      'a header that clients set',
      { team: { from: 'header x-team' } },
      '/tags/team/from',
      'clients can send any header x-team; write client: true beside it to allow that',
    ],
    [
      'metadata that clients set, in a list',
      { team: { from: ['claim team', 'metadata.team'] } },
      '/tags/team/from/1',
      'clients can send any metadata.team; write client: true beside it to allow that',
    ],
    [
      'client: true without such a source',
      { team: { from: 'key', client: true } },
      '/tags/team/client',
      'clients set none of its sources; remove this line',
    ],
    [
      'a header with a secret',
      { team: { from: 'header Authorization', client: true } },
      '/tags/team/from',
      'header Authorization carries a secret, and tags are recorded',
    ],
    [
      'a default of a required tag',
      { team: { from: 'key', default: 'a', required: true } },
      '/tags/team/required',
      'a tag with a default is never missing',
    ],
    [
      'a default that is not allowed',
      { team: { from: 'key', default: 'c', values: ['a', 'b'] } },
      '/tags/team/default',
      'default must be one of a, b',
    ],
    [
      'a word of conditions',
      { in: { from: 'key' } },
      '/tags/in',
      '"in" is a word of conditions, so no tag can have that name',
    ],
  ])('%s', (_name, given, at, message) => {
    expect(check(given)).toEqual([{ at, message }])
  })
})

test.each<[string, Given, string[], boolean]>([
  ['a claim', { team: { from: 'claim team' } }, ['claims'], false],
  ['names', { a: { from: 'key' }, b: { from: 'account' } }, ['key', 'account'], false],
  ['a header, counted for the account', { a: { from: 'header x-a', client: true } }, ['account'], false],
  ['a header with listed values', { a: { from: 'header x-a', client: true, values: ['a'] } }, [], false],
  ['the body', { a: { from: 'metadata.a', client: true, values: ['a'] } }, [], true],
])('%s: which facts it needs, and whether it needs the body', (_name, given, needs, body) => {
  const settings = readSettings(tags, { tags: given })
  expect(check(given)).toEqual([])
  expect((tags.needs as (settings: unknown) => unknown)(settings)).toEqual(needs)
  expect((tags.needsBody as (settings: unknown) => unknown)(settings)).toBe(body)
})

describe('a value that is refused', () => {
  const team = { from: ['header x-team', 'metadata.team', 'claim team'], client: true }
  test.each<[string, Record<string, unknown>, StepRequest, Record<string, unknown>, string, string | null]>([
    [
      'too long',
      team,
      { headers: [['x-team', 'x'.repeat(201)]] },
      {},
      `The tag "team" (header x-team) must be 1 to 200 visible characters without spaces around them, and is "${'x'.repeat(60)}…".`,
      null,
    ],
    [
      'of another alphabet than visible characters',
      team,
      { body: { metadata: { team: 'a\u200bb' } } },
      {},
      'The tag "team" (metadata.team) must be 1 to 200 visible characters without spaces around them, and is "a\\u200bb".',
      'metadata.team',
    ],
    [
      'a list',
      team,
      { body: {} },
      { team: ['a'] },
      'The tag "team" (claim team) must be 1 to 200 visible characters without spaces around them, and is a list.',
      null,
    ],
    [
      'an object',
      team,
      { body: { metadata: { team: {} } } },
      {},
      'The tag "team" (metadata.team) must be 1 to 200 visible characters without spaces around them, and is an object.',
      'metadata.team',
    ],
    [
      'not in the list',
      { ...team, values: ['ads', 'search'] },
      { headers: [['x-team', 'sales']] },
      { team: 'ads' },
      'The tag "team" (header x-team) must be one of ads, search, and is "sales".',
      null,
    ],
    [
      'other bytes than UTF-8',
      team,
      { headers: [['x-team', 'Z\u00fcrich']] },
      { team: 'ads' },
      'The tag "team" (header x-team) must be 1 to 200 visible characters without spaces around them, and is not UTF-8.',
      null,
    ],
    [
      'a header that is there twice',
      { ...team, values: ['ads', 'search'] },
      {
        headers: [
          ['x-team', 'ads'],
          ['X-Team', 'ads'],
        ],
      },
      {},
      'The tag "team" (header x-team) must be one of ads, search, and is sent more than once.',
      null,
    ],
    [
      'not in a long list',
      { ...team, values: Array.from({ length: 21 }, (_, nth) => `t${nth}`) },
      { headers: [['x-team', 'sales']] },
      {},
      'The tag "team" (header x-team) must be one of 21 allowed values, and is "sales".',
      null,
    ],
  ])('%s', async (_name, tag, request, claims, message, param) => {
    const { refusal, tags: given } = await tagging({ team: tag }).send(request, { claims })
    expect(refusal).toMatchObject({ code: 'invalid_tag', status: 400, message, param })
    expect(given).toBeUndefined()
  })

  test('none where one is required', async () => {
    const { send } = tagging({ team: { from: ['claim team', 'header x-team'], client: true, required: true } })
    const { refusal } = await send({}, { claims: { team: '' } })
    expect(refusal).toMatchObject({
      code: 'tag_required',
      status: 400,
      message: 'The tag "team" is required. Its value comes from claim team or header x-team.',
    })
    expect((await send({ headers: [['X-Team', 'ads']] }, { claims: {} })).tags).toEqual({ team: 'ads' })
  })

  test('a body that is not JSON', async () => {
    const { send } = tagging({ user: { from: 'metadata.user_id', client: true } })
    expect((await send({ bytes: Buffer.from('{') })).refusal).toMatchObject({ code: 'invalid_json' })
  })
})

describe('values', () => {
  test.each<[string, Record<string, unknown>, StepRequest, Record<string, unknown>, string | undefined]>([
    ['a claim', { from: 'claim team' }, {}, { team: 'ads' }, 'ads'],
    ['a claim that is a number', { from: 'claim team' }, {}, { team: 42 }, '42'],
    [
      'a claim by its whole name',
      { from: 'claim https://example.com/team' },
      {},
      { 'https://example.com/team': 'a' },
      'a',
    ],
    ['no claim', { from: 'claim team' }, {}, {}, undefined],
    ['a name of every object', { from: 'claim constructor' }, {}, {}, undefined],
    ["the key's name", { from: 'key' }, {}, {}, 'laptop'],
    ["the account's name", { from: 'account' }, {}, {}, 'ada'],
    ['a header', { from: 'header X-Team', client: true }, { headers: [['x-team', 'ads']] }, {}, 'ads'],
    [
      'a header in UTF-8',
      { from: 'header x-team', client: true, values: ['Zürich'] },
      { headers: [['x-team', headerBytes('Zürich')]] },
      {},
      'Zürich',
    ],
    ['an empty header', { from: 'header x-team', client: true }, { headers: [['x-team', '']] }, {}, undefined],
    ['a default', { from: 'header x-team', client: true, default: 'none' }, {}, {}, 'none'],
    [
      'metadata of a messages request',
      { from: 'metadata.user_id', client: true },
      { body: { metadata: { user_id: 'u1' } }, route: { kind: 'messages' } },
      {},
      'u1',
    ],
    ['metadata that is null', { from: 'metadata.a', client: true }, { body: { metadata: null } }, {}, undefined],
    [
      'metadata where no model is asked',
      { from: 'metadata.a', client: true },
      { bytes: Buffer.from('no JSON'), route: { kind: 'raw' } },
      {},
      undefined,
    ],
    [
      'the first source that has one',
      { from: ['claim team', 'header x-team', 'key'], client: true },
      { headers: [['x-team', 'ads']] },
      {},
      'ads',
    ],
  ])('%s', async (_name, tag, request, claims, expected) => {
    const { tags: given, refusal } = await tagging({ team: tag }).send(request, { claims })
    expect(refusal).toBeNull()
    expect(given).toEqual(expected === undefined ? {} : { team: expected })
  })
})

describe('how many values a tag may have', () => {
  const session = { session: { from: 'header x-session', client: true, at_most: 2 } }
  const of = (value: string): StepRequest => ({ headers: [['x-session', value]] })

  test('further ones become `other`; those that were there stay', async () => {
    const { send } = tagging(session)
    const seen: unknown[] = []
    for (const value of ['a', 'b', 'c', 'a', 'd', 'b']) seen.push((await send(of(value))).tags!['session'])
    expect(seen).toEqual(['a', 'b', 'other', 'a', 'other', 'b'])
  })

  test('a request that is refused takes none', async () => {
    const { send } = tagging({ ...session, team: { from: 'header x-team', client: true, values: ['ads'] } })
    for (const value of ['a', 'b', 'c']) {
      const headers = [...of(value).headers!, ['x-team', 'sales']] as const
      expect((await send({ headers })).refusal).toMatchObject({ code: 'invalid_tag' })
    }
    expect((await send(of('d'))).tags).toEqual({ session: 'd' })
  })

  test('each account has its own', async () => {
    const { send } = tagging(session)
    for (const value of ['a', 'b', 'c']) await send(of(value))
    const other = { account: { ...account, id: 'acc_2' } }
    expect((await send(of('c'), other)).tags).toEqual({ session: 'c' })
  })

  test('the next day has as many again', async () => {
    const { send, clock } = tagging(session)
    for (const value of ['a', 'b']) await send(of(value))
    clock.time += DAY_MS
    const seen: unknown[] = []
    for (const value of ['c', 'd', 'a']) seen.push((await send(of(value))).tags!['session'])
    expect(seen).toEqual(['c', 'd', 'other'])
  })

  test('without at_most a tag of clients has 1000, and a tag of the key any number', async () => {
    const { send } = tagging({ session: { from: 'header x-session', client: true }, key: { from: 'key' } })
    for (let nth = 0; nth < 1000; nth++) await send(of(`s${nth}`), { key: { ...key, name: `k${nth}` } })
    const { tags: given } = await send(of('one more'), { key: { ...key, name: 'one more' } })
    expect(given).toEqual({ session: 'other', key: 'one more' })
  })

  test('with a state server its answers are waited for', async () => {
    const texts = new Map<string, string>()
    const kv = {
      get: async (name: string) => texts.get(name),
      set: (name: string, text: string) => void texts.set(name, text),
      delete() {},
    }
    const { send } = tagging(session, { kv })
    const seen: unknown[] = []
    for (const value of ['a', 'b', 'c', 'a']) seen.push((await send(of(value))).tags!['session'])
    expect(seen).toEqual(['a', 'b', 'other', 'a'])
  })
})

test('a request has its tags in conditions, on its receipt and in the log; they are not on that of another', async () => {
  const given = { team: { from: ['header x-team', 'metadata.team'], client: true } }
  await using bench = await openBench({
    steps: [
      { use: 'api-key' },
      { use: 'tags', with: { tags: given } },
      { use: 'schema' },
      { use: 'prompt', with: { system: 'Be brief.' }, when: 'tags.team == "Zürich" && header("x-team") == "Zürich"' },
      { use: 'credits' },
      { use: 'route' },
    ],
  })
  const sent = [
    await bench.chat({}, { headers: { 'x-team': 'Zürich' } }),
    await bench.chat({ metadata: { team: 'search' } }),
    await bench.chat(),
  ]
  const wanted = [{ team: 'Zürich' }, { team: 'search' }, {}]
  expect(sent.map(answer => bench.ledger.receipt(answer)!.tags)).toEqual(wanted)
  expect(bench.upstream.calls.map(({ body }) => body?.['messages'])).toMatchObject([
    { length: 2 },
    { length: 1 },
    { length: 1 },
  ])
})
