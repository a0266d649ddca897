/** `tollgate explain req_…` and `tollgate explain --shadow`: reports of past exchanges. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { RecentTrails } from '../../src/api/api-parts.ts'
import { controlPath, startControl } from '../../src/api/control/socket.ts'
import type { PastExchangeView, ShadowView } from '../../src/api/views.ts'
import { run } from '../../src/cli/cli.ts'
import { exchangeText, explainLive, explainShadow } from '../../src/cli/explain/live.ts'
import type { Terminal } from '../../src/cli/terminal.ts'
import { FIVE_STEPS, startInProcess } from '../helpers/in-process.ts'
import { aHold, aSettle } from '../store/requests.ts'
import { makePlace, ownStore, type Place } from './helpers.ts'

const ID = `req_${'0'.repeat(25)}1`
let place: Place
let out: string
let terminal: Terminal
const options = { config: 'gateway.yaml', json: false }

beforeEach(() => {
  place = makePlace()
  out = ''
  terminal = {
    env: {},
    folder: place.folder,
    out: text => {
      out += text
    },
    err() {},
    watched: false,
    self: 'tollgate',
  }
})
afterEach(() => place.remove())

const REFUSED: PastExchangeView = {
  id: ID,
  kept: 'memory',
  trace_id: '0af7651916cd43dd8448eb211c80319c',
  started_at: '2026-11-21T12:00:00.123Z',
  ms: 2.5,
  route: '/v1/chat/completions',
  policy: 'standard',
  method: 'POST',
  account_id: 'acc_1',
  account: 'acme',
  key_id: 'key_1',
  key: 'laptop',
  tags: { team: 'ads', user: 'a\u202eb' },
  model: 'chat-small',
  stream: true,
  status: 429,
  outcome: 'refused',
  code: 'rate_limit_exceeded',
  decided_by: 'burst',
  trail: [
    { step: 'api-key', verdict: 'passed' },
    { step: 'volume', verdict: 'skipped' },
    { step: 'burst', verdict: 'refused', code: 'rate_limit_exceeded' },
  ],
  attempts: [],
  receipt: null,
}

/** Runs `work` beside a gateway that owns the place's store and remembers these trails. */
async function withTrails<Result>(past: Partial<RecentTrails>, work: () => Promise<Result>): Promise<Result> {
  const owner = await ownStore(place.database)
  const parts: RecentTrails = {
    exchange: async () => undefined,
    shadow: () => ({ since: '2026-11-21T12:00:00.000Z', steps: [] }),
    most: 10_000,
    ...past,
  }
  const path = controlPath(`sqlite:${place.database}`, join(place.folder, 'gateway.yaml'))
  const control = await startControl(owner.store, path, { past: parts })
  try {
    return await work()
  } finally {
    await control.close()
    await owner.stop()
  }
}

describe('an unknown exchange', () => {
  test('of a running gateway: the message says what it remembers', async () => {
    const result = withTrails({}, () => explainLive('req_unknown', options, terminal))
    await expect(result).rejects.toThrow(
      'Nothing is known of req_unknown. The gateway remembers the last 10,000 since its start. ' +
        'Requests with a hold have a receipt, which is kept for ever.',
    )
  })

  test('without a running gateway', async () => {
    await expect(explainLive('req_unknown', options, terminal)).rejects.toThrow(
      'Without a running gateway its last requests are not known',
    )
    await expect(explainShadow(options, terminal)).rejects.toThrow('are only in its memory')
  })

  test('with a store in memory and no gateway', async () => {
    place.write('gateway.yaml', 'version: 1\nstore: memory\n')
    await expect(explainLive(ID, options, terminal)).rejects.toThrow('no gateway runs here')
  })
})

describe('an exchange', () => {
  test('that was refused, as text', async () => {
    expect(await withTrails({ exchange: async () => REFUSED }, () => explainLive(ID, options, terminal))).toBe(0)
    expect(out).toBe(`${ID} was refused: 429 rate_limit_exceeded. The step burst decided.

  at       2026-11-21 12:00:00.123 UTC, 2.5 ms
  request  POST /v1/chat/completions, policy standard
  account  acme (acc_1)
  key      laptop (key_1)
  tags     team=ads, user=a\\u202eb
  trace    0af7651916cd43dd8448eb211c80319c
  model    chat-small, streamed

Steps
  NR  STEP     VERDICT  CODE
  1   api-key  passed
  2   volume   skipped
      \`when\` is false
  3   burst    refused  rate_limit_exceeded

Money
  Nothing was held, and nothing was charged.
`)
  })

  test('as JSON', async () => {
    await withTrails({ exchange: async () => REFUSED }, () => explainLive(ID, { ...options, json: true }, terminal))
    expect(JSON.parse(out)).toEqual(REFUSED)
  })

  test('from its receipt, without a running gateway', async () => {
    const { store, stop } = await ownStore(place.database)
    const { id: accountId } = await store.createAccount({ name: 'acme' })
    await store.credit({ account: accountId, amount: 1000n, reference: 'r', actor: 'test' })
    const { key } = await store.createKey({ account: accountId, name: 'laptop' })
    await store.ledger.hold(aHold({ exchange: ID, accountId, keyId: key.id }))
    await store.ledger.settle(aSettle({ exchange: ID }))
    await stop()
    await explainLive(ID, options, terminal)
    expect(out).toContain(`${ID} was answered.\n`)
    expect(out).toContain('This is from its receipt; the gateway no longer has the rest.\n')
    expect(out).toContain(`  account  acme (${accountId})\n  key      laptop (${key.id})\n  model    chat-small\n`)
    expect(out).toContain('  1   credits  passed\n      held\n')
    expect(out).toContain('  TARGET           STATUS  CODE  MS\n  demo/demo-small  200           12\n')
    expect(out).toContain(
      '  held     $0.0000001\n  charged  $0.00000004, reported\n  tokens   10 in, 20 out, 4 of them cached, 5 reasoning\n',
    )
    out = ''
    await explainLive(ID, { ...options, json: true }, terminal)
    expect(JSON.parse(out)).toMatchObject({ kept: 'receipt', status: null, receipt: { charged: '0.000000040' } })
  })

  test.each<[string, Partial<PastExchangeView>, string]>([
    ['answered', { outcome: 'answered', status: 200, code: null, decided_by: null }, 'was answered: 200.'],
    ['by a step', { outcome: 'answered', status: 200, code: null, decided_by: 'cache' }, 'by the step cache: 200.'],
    [
      'failed',
      { outcome: 'failed', status: 502, code: 'upstream_error', decided_by: 'send' },
      'failed: 502 upstream_error. It came from the upstream call, after the steps.',
    ],
    [
      'before the steps',
      { status: 413, code: 'request_too_large', decided_by: 'gateway', trail: [] },
      'The gateway itself decided, outside the steps.',
    ],
    [
      'left',
      { outcome: 'client_left', status: null, code: null, decided_by: null },
      'ended when the client disconnected.',
    ],
    ['cut', { outcome: 'cut', status: 503, code: 'shutting_down' }, 'was cut off: the gateway was stopped.'],
    ['open', { outcome: null, status: null, code: null, decided_by: null }, 'is in progress.'],
  ])('%s', (_name, change, sentence) => {
    expect(exchangeText({ ...REFUSED, ...change }).split('\n')[0]).toContain(sentence)
  })

  test.each<[PastExchangeView['trail'][number], string | null]>([
    [{ step: 'a', verdict: 'passed' }, null],
    [{ step: 'a', verdict: 'skipped' }, '`when` is false'],
    [{ step: 'a', verdict: 'refused', code: 'forbidden', why: 'in_answer' }, 'in the middle of the answer'],
    [{ step: 'a', verdict: 'failed', code: 'plugin_error', why: 'when_threw', note: 'x' }, 'threw in its `when`; x'],
    [
      { step: 'a', verdict: 'passed', would: [{ deed: 'set_header', header: 'x-a' }, { deed: 'edit' }] },
      'would have: set x-a, edited',
    ],
    // Receipts of older versions have this text in the note.
    [{ step: 'a', verdict: 'skipped', note: '`when` is false' }, '`when` is false'],
    [{ step: 'a', verdict: 'passed', note: 'hi; would have: set x-a' }, 'hi; would have: set x-a'],
  ])('below the line %j', (entry, words) => {
    const [, line] = exchangeText({ ...REFUSED, trail: [entry] }).split(/VERDICT +CODE\n.*\n/)
    expect(line!.split('\n')[0]!.trim()).toBe(words ?? '')
  })

  test('the error message of the provider follows the line of a failed attempt', () => {
    const attempts = [
      { target: 'p/a', status: 400, code: 'upstream_rejected', ms: 3, detail: 'status 400: no such\x1b tool' },
      { target: 'p/b', status: 200, code: null, ms: 4 },
    ]
    const [, lines] = exchangeText({ ...REFUSED, attempts }).split('Attempts\n')
    expect(
      lines!
        .split('\n')
        .slice(1, 4)
        .map(line => line.trim().split(/ +/)[0]),
    ).toEqual(['p/a', 'status', 'p/b'])
    expect(lines).not.toContain('\x1b')
  })

  test('notes of steps are wrapped, and their control characters removed', () => {
    const note = `\x1b[2J\u202e${'a long remark '.repeat(20)}`
    const text = exchangeText({ ...REFUSED, trail: [{ step: 's\r', verdict: 'passed', note }] })
    expect(text).not.toMatch(/[\x1b\r\u202e]/)
    for (const line of text.split('\n')) expect(line.length).toBeLessThanOrEqual(100)
  })
})

const SHADOW: ShadowView = {
  since: '2026-11-21T10:00:00.000Z',
  steps: [
    {
      policy: 'standard',
      step: 'burst',
      now: true,
      since: '2026-11-21T10:01:00.000Z',
      ran: 1200,
      would_refuse: 37,
      refusals: [
        {
          code: 'rate_limit_exceeded',
          count: 37,
          accounts: {
            distinct: 12,
            more: false,
            top: Array.from({ length: 10 }, (_, nth) => ({
              id: `acc_${nth}`,
              name: `customer ${nth}`,
              count: 20 - nth,
            })),
          },
          keys: { distinct: 1000, more: true, top: [{ id: 'key_1', name: 'laptop', count: 20 }] },
          examples: [{ id: ID, at: '2026-11-21T12:00:00.000Z' }],
        },
      ],
    },
    { policy: 'standard', step: 'idle', now: true, since: null, ran: 0, would_refuse: 0, refusals: [] },
    { policy: 'standard', step: 'old', now: false, since: null, ran: 9, would_refuse: 0, refusals: [] },
  ],
}

describe('steps in shadow mode of a running gateway', () => {
  test('none', async () => {
    await withTrails({}, () => explainShadow(options, terminal))
    expect(out).toContain('No step of the running configuration is in shadow')
  })

  test('as a table', async () => {
    await withTrails({ shadow: () => SHADOW }, () => explainShadow(options, terminal))
    expect(out).toBe(`Refusals of steps in shadow mode since the gateway's start, 2026-11-21 10:00 UTC

POLICY    STEP           CODE                  RAN  REFUSED  SHARE  ACCOUNTS   KEYS
standard  burst          rate_limit_exceeded  1200       37  3.1 %        12  1000+
standard  idle           -                       0        0      -
standard  old (not now)  -                       9        0    0 %

standard, burst: rate_limit_exceeded
  accounts: customer 0 (acc_0) 20, customer 1 (acc_1) 19, customer 2 (acc_2) 18, customer 3 (acc_3)
    17, customer 4 (acc_4) 16, customer 5 (acc_5) 15, customer 6 (acc_6) 14, customer 7 (acc_7) 13,
    customer 8 (acc_8) 12, customer 9 (acc_9) 11, and 2 more
  keys: laptop (key_1) 20, and 999 more
  latest: ${ID} at 2026-11-21T12:00:00.000Z
`)
  })

  test('as JSON', async () => {
    await withTrails({ shadow: () => SHADOW }, () => explainShadow({ ...options, json: true }, terminal))
    expect(JSON.parse(out)).toEqual(SHADOW)
  })
})

describe('steps in shadow mode in a usage log', () => {
  const line = (nth: number, burst: object | null, change: object = {}) =>
    JSON.stringify({
      v: 1,
      id: `req_${nth}`,
      at: new Date(Date.UTC(2026, 10, 21, 12, nth)).toISOString(),
      policy: 'standard',
      account: { id: 'acc_1', name: 'acme', plan: 'free' },
      key: { id: 'key_1', name: 'laptop' },
      status: 200,
      outcome: 'answered',
      trail: [{ step: 'api-key', verdict: 'passed' }, ...(burst ? [{ step: 'burst', ...burst }] : [])],
      ...change,
    })
  const REFUSES = { verdict: 'would_refuse', code: 'rate_limit_exceeded' }
  const LINES = [
    line(1, { verdict: 'passed' }),
    line(2, REFUSES),
    line(3, { verdict: 'skipped' }),
    line(4, REFUSES, { account: null, key: null }),
    line(5, { verdict: 'passed' }),
    line(6, null),
    line(0, { verdict: 'passed' }),
  ]
  const read = (file: string, json = false) => explainShadow({ ...options, json, log: file }, terminal)

  test.each<[string, string, string]>([
    ['with only other lines', 'hello\nworld\n', 'line 1: it is not JSON'],
    ['with other objects', '{"level":"info"}\n', 'line 1: it is not a line of a usage log'],
    ['without a trail', line(1, null, { trail: 'none' }), 'line 1: `trail` is not a list of steps'],
    ['with an invalid time', line(1, null, { at: 'soon' }), 'line 1: `at` is not a time'],
  ])('%s: refused', async (_name, text, sentence) => {
    place.write('log.jsonl', text)
    await expect(read('log.jsonl')).rejects.toThrow(`log.jsonl is not a log of the plugin usage-log`)
    await expect(read('log.jsonl')).rejects.toThrow(sentence)
  })

  test('that is missing or damaged', async () => {
    await expect(read('none.jsonl')).rejects.toThrow('the file does not exist')
    await expect(read('.')).rejects.toThrow('cannot be read')
    const whole = gzipSync(LINES.join('\n'))
    writeFileSync(join(place.folder, 'torn.gz'), whole.subarray(0, whole.length - 12))
    expect(await read('torn.gz'), 'what is there is read').toBe(0)
    expect(out).toMatch(/omitted; the first is line \d+: it cannot be unpacked from here on/)
  })

  test.each(['log.jsonl', 'log.jsonl.gz'])('%s: as a table; incomplete and empty lines are skipped', async name => {
    const text = `${LINES.join('\n')}\n\n{"id":"req_8","at":"2026`
    writeFileSync(join(place.folder, name), name.endsWith('.gz') ? gzipSync(text) : text)
    expect(await read(name)).toBe(0)
    // Lines of text have at most 100 characters.
    const heading = name.endsWith('.gz')
      ? `Refusals of steps in shadow mode in ${name}: 7 exchanges from 2026-11-21 12:00 UTC to\n  2026-11-21 12:06 UTC`
      : `Refusals of steps in shadow mode in ${name}: 7 exchanges from 2026-11-21 12:00 UTC to 2026-11-21\n  12:06 UTC`
    expect(out).toBe(`${heading}

POLICY    STEP   CODE                 RAN  REFUSED  SHARE  ACCOUNTS  KEYS
standard  burst  rate_limit_exceeded    5        2   40 %         1     1

standard, burst: rate_limit_exceeded
  accounts: acme (acc_1) 1
  keys: laptop (key_1) 1
  latest: req_4 at 2026-11-21T12:04:00.000Z, req_2 at 2026-11-21T12:02:00.000Z

1 line omitted; the first is line 9: it is not JSON; the end of a line may be missing.
`)
  })

  test('as JSON, and without entries', async () => {
    place.write('log.jsonl', LINES.join('\n'))
    await read('log.jsonl', true)
    expect(JSON.parse(out)).toMatchObject({
      exchanges: 7,
      skipped: null,
      steps: [{ step: 'burst', ran: 5, would_refuse: 2 }],
    })
    out = ''
    place.write('quiet.jsonl', LINES[0]!)
    await read('quiet.jsonl')
    expect(out).toContain('1 exchange from')
    expect(out).toContain('No step in shadow mode would have refused any of them.')
  })
})

test('end to end: a gateway with its control socket and its usage log, and the command', async () => {
  const logged = join(place.folder, 'usage.jsonl')
  const [apiKey, ...others] = FIVE_STEPS
  const once = { per: 'account', requests: '1 per hour', burst: 1 }
  await using gateway = await startInProcess({
    steps: [
      { use: 'usage-log', with: { file: logged } },
      apiKey!,
      { use: 'rate-limit', id: 'strict', mode: 'shadow', with: once },
      ...others,
    ],
  })
  const ids: string[] = []
  for (const model of ['m', 'm', 'none']) {
    const answer = await gateway.chat({ model })
    await answer.text()
    ids.push(answer.headers.get('x-request-id')!)
  }
  await gateway.exchangeLine(ids.at(-1)!)
  const { file: config } = gateway.running.configuration
  const tollgate = async (...args: string[]) => {
    out = ''
    expect(await run(['explain', ...args, '-c', config], terminal)).toBe(0)
    return out
  }
  expect(await tollgate(ids[2]!)).toContain(`${ids[2]} was refused: 404 model_not_found. The step schema decided.`)
  const charged = await tollgate(ids[1]!)
  expect(charged).toContain(`${ids[1]} was answered: 200.`)
  expect(charged).toMatch(/strict +would_refuse +rate_limit_exceeded/)
  expect(charged).toMatch(/charged {2}\$0\.0\d+, reported/)

  const shadow = JSON.parse(await tollgate('--shadow', '--json')) as ShadowView
  expect(shadow.steps).toMatchObject([{ step: 'strict', now: true, ran: 3, would_refuse: 2 }])
  // The shutdown has written the whole log.
  await gateway.stop()
  const fromLog = JSON.parse(await tollgate('--shadow', '--json', '--log', logged)) as ShadowView
  const { now, ...figures } = shadow.steps[0]!
  expect(now).toBe(true)
  expect(fromLog.steps).toEqual([figures])
})
