import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { describe, expect, it } from 'vitest'
import { type Log, refuse, visible } from '#contract'
import { createLog, LOG_LEVELS, type LogOptions } from '../../src/observe/log.ts'
import { createRedactor } from '../../src/observe/redact.ts'

const NOW = Date.UTC(2026, 10, 21, 12, 0, 0, 123)

/** Secrets that are hard to redact. */
const CANARIES = [
  'canary-plain-0001',
  'canary"quote"0002',
  'canary\\backslash\\0003',
  'canary\nline\r\nfeeds-0004',
  'canary\ttab\u0001control-0005',
  'canary.*+?^${}()|[]/-0006',
  'canary-ünïcödé-€-😀-0007',
  'canary with blanks 0008',
  '  canary-blanks-around-0009\n',
  'canary$&$1$`0010',
  'canary-0011',
  'canary-0011-and-longer',
  '8charact',
  '1234567890123',
  'true-false-null-0015',
  'https://user:canary-0016@db.internal:5432/tollgate?sslmode=on',
  '-----BEGIN PRIVATE KEY-----\ncanary0017/+==\n-----END PRIVATE KEY-----\n',
  'canary%20percent%0018',
  'canary-\ud800-lone-surrogate-0019',
  `canary-long-0020-${'x'.repeat(3000)}`,
]

const PLACES: [string, (log: Log, level: keyof Log, secret: string) => void][] = [
  ['the message', (log, level, secret) => log[level]({}, `before ${secret} after`)],
  ['a field', (log, level, secret) => log[level]({ detail: secret }, 'm')],
  ['the middle of a field', (log, level, secret) => log[level]({ detail: `<${secret}${secret}>` }, 'm')],
  ['a field four levels deep', (log, level, secret) => log[level]({ a: { b: { c: { d: secret } } } }, 'm')],
  ['a list in a list', (log, level, secret) => log[level]({ list: [1, [secret, { a: [secret] }]] }, 'm')],
  ['the name of a field', (log, level, secret) => log[level]({ [secret]: 1, nested: { [secret]: 1 } }, 'm')],
  ['the message and the stack of an error', (log, level, secret) => log[level]({ error: new Error(secret) }, 'm')],
  ['the name of an error', (log, level, secret) => log[level]({ err: named(new Error('x'), secret) }, 'm')],
  ['the fourth cause of an error', (log, level, secret) => log[level]({ err: causes(4, secret) }, 'm')],
  [
    'the errors of an AggregateError',
    (log, level, secret) => log[level]({ e: new AggregateError([new Error(secret)], 'all') }, 'm'),
  ],
  [
    'a field of an error',
    (log, level, secret) => log[level]({ e: Object.assign(new Error('x'), { options: { key: secret } }) }, 'm'),
  ],
  [
    'an error instead of fields',
    (log, level, secret) => (log[level] as unknown as (error: Error) => void)(new Error(secret)),
  ],
  ['only a message', (log, level, secret) => (log[level] as unknown as (text: string) => void)(secret)],
  [
    'a map and a set',
    (log, level, secret) => log[level]({ map: new Map([[secret, secret]]), set: new Set([secret]) }, 'm'),
  ],
  ['a text that is JSON', (log, level, secret) => log[level]({ body: JSON.stringify({ a: secret }) }, 'm')],
  [
    'a URL',
    (log, level, secret) =>
      log[level]({ url: `https://host/?q=${encodeURIComponent(secret.trim().toWellFormed())}` }, 'm'),
  ],
  ['a header', (log, level, secret) => log[level]({ headers: { Authorization: `Bearer ${secret}` } }, 'm')],
  [
    'a text that is cut at the secret',
    (log, level, secret) => log[level]({ text: `${'y'.repeat(8188)}${secret}` }, 'm'),
  ],
]

describe('loaded secrets', () => {
  it.each(PLACES)('are redacted in %s', (_place, write) => {
    for (const level of ['info', 'warn', 'error'] as const) {
      for (const canary of CANARIES) {
        const { lines, log, forStep } = capture({ secrets: CANARIES })
        write(log, level, canary)
        write(forStep('burst'), level, canary)
        expect(lines).toHaveLength(2)
        for (const line of lines) {
          expect(leaks(line, canary)).toEqual([])
          expect(JSON.parse(line)).toMatchObject({ level, time: '2026-11-21T12:00:00.123Z' })
        }
      }
    }
  })

  it('are redacted in the bound fields of a step logger and of a child', () => {
    for (const canary of CANARIES) {
      const { lines, forStep, child } = capture({ secrets: CANARIES })
      forStep(canary).info({}, 'm')
      child({ a: { b: canary } }).info({}, 'm')
      for (const line of lines) expect(leaks(line, canary)).toEqual([])
    }
  })

  it('are redacted whole if another secret is a prefix', () => {
    const { lines, log } = capture({ secrets: ['canary-0011', 'canary-0011-and-longer'] })
    log.info({ detail: 'canary-0011-and-longer' }, 'm')
    expect(JSON.parse(lines[0]!)).toMatchObject({ detail: '[secret]' })
  })

  it.each([
    ['escaped in JSON', '{"a":"canary-\\ud800-0019"}'],
    ['unescaped in JSON', '{"a":"canary-\ud800-0019"}'],
  ])('with half a surrogate pair are redacted: %s', (_how, line) => {
    expect(JSON.parse(createRedactor(['canary-\ud800-0019']).line(line))).toEqual({ a: '[secret]' })
  })

  it('are redacted in JSON that escapes slashes', () => {
    const { lines, log } = capture({ secrets: ['canary/0011=='] })
    log.info({ detail: '{"key":"canary\\/0011=="}' }, 'm')
    expect(JSON.parse(lines[0]!)).toMatchObject({ detail: '{"key":"[secret]"}' })
  })

  it.each([
    ['to canary-001', 'to '],
    ['canary-0011 and cana', '[secret] and '],
    ['canary-0022 can', '[secret] can'],
    ['an onion', 'an onion'],
  ])('are redacted in a text that may be cut: %s', (text, clean) => {
    expect(createRedactor(['canary-0011', 'canary-0022']).text(text, true)).toBe(clean)
  })

  it('are redacted in texts that are not logged', () => {
    expect(createLog({ level: 'silent', secrets: ['canary-0011'] }).redact('key canary-0011!')).toBe('key [secret]!')
  })

  it('of digits only leave numbers unchanged', () => {
    const { lines, log } = capture({ secrets: ['1234567890123'] })
    log.info({ number: 1234567890123, text: 'is 1234567890123' }, 'm')
    expect(JSON.parse(lines[0]!)).toMatchObject({ number: 1234567890123, text: 'is [secret]' })
  })

  it('that are added later are redacted too, along with the earlier ones', () => {
    const { lines, log, learn } = capture({ secrets: ['canary-first'] })
    learn(['canary-second'])
    log.info({ detail: 'canary-first canary-second' }, 'm')
    expect(JSON.parse(lines[0]!)).toMatchObject({ detail: '[secret] [secret]' })
  })

  it('of fewer than eight characters are not redacted', () => {
    const { lines, log } = capture({ secrets: ['on', 'second', ''] })
    log.info({ detail: 'once a second' }, 'm')
    expect(JSON.parse(lines[0]!)).toMatchObject({ detail: 'once a second' })
  })
})

describe('texts that look like secrets', () => {
  it.each([
    ['tg_live_0123456789abcdefghijklmnopqrstuvwxyz', '[secret]'],
    ['key tg_live_short, revoked', 'key [secret], revoked'],
    ['tg_oper_0123456789abcdefghijklmnopqrstuvwxyz', '[secret]'],
    ['no token "tg_oper_short"', 'no token "[secret]"'],
    ['Incorrect API key provided: sk-proj-AbC_123-xyz789.', 'Incorrect API key provided: [secret].'],
    ['sk-ant-api03-aaaaaaaa', '[secret]'],
    ['"gsk_abcdefgh12345678"', '"[secret]"'],
    ['xai-abcdefgh12345678', '[secret]'],
    ['AIzaSyA-1234567890_abcdefghij', '[secret]'],
    ['authorization: Bearer eyJhbGciOi.J9.x-y_z=', 'authorization: Bearer [secret]'],
    ['BEARER   abcdefgh', 'BEARER [secret]'],
    ['Basic dXNlcjpwYXNz', 'Basic [secret]'],
    ['GET https://host/v1?key=abc&alt=sse', 'GET https://host/v1?key=[secret]&alt=sse'],
    ['api_key=abc; x', 'api_key=[secret]; x'],
    ['Password=hunter2', 'Password=[secret]'],
    ['access_token=a.b-c', 'access_token=[secret]'],
    // Unchanged.
    ['req_0123456789abcdefghijklmn', 'req_0123456789abcdefghijklmn'],
    ['task-runner-abcdefgh', 'task-runner-abcdefgh'],
    ['the basic authentication of a bearer token', 'the basic authentication of a bearer token'],
    ['key = value', 'key = value'],
  ])('%s', (text, cleaned) => {
    const { lines, log } = capture({})
    log.info({ a: { detail: text } }, text)
    expect(JSON.parse(lines[0]!)).toMatchObject({ a: { detail: cleaned }, msg: cleaned })
    // Redaction is idempotent.
    log.info({ detail: cleaned }, 'm')
    expect(JSON.parse(lines[1]!)).toMatchObject({ detail: cleaned })
  })

  it.each([
    'authorization',
    'Proxy-Authorization',
    'cookie',
    'Set-Cookie',
    'x-api-key',
    'api-key',
    'api_key',
    'apiKey',
    'x-goog-api-key',
    'password',
    'secret',
    'access_token',
  ])('the value of a field named %s is redacted', name => {
    const { lines, log } = capture({})
    log.info({ [name]: 'whatever', headers: { [name]: ['whatever', { x: 'whatever' }] } }, 'm')
    expect(lines[0]).not.toContain('whatever')
    expect(JSON.parse(lines[0]!)).toMatchObject({ [name]: '[secret]' })
  })
})

describe('a log line', () => {
  it('is one line, whatever it contains', () => {
    const { lines, log } = capture({})
    log.info({ detail: 'a\r\n{"level":"error","msg":"forged"}\n' }, 'b\nc\u2028d\u0000\u001b[31m')
    expect(lines[0]!.match(/[\n\r\u0000\u001b]/g)).toEqual(['\n'])
    expect(lines[0]!.endsWith('}\n')).toBe(true)
    expect(JSON.parse(lines[0]!)).toEqual({
      level: 'info',
      time: '2026-11-21T12:00:00.123Z',
      detail: 'a\r\n{"level":"error","msg":"forged"}\n',
      msg: 'b\nc\u2028d\u0000\u001b[31m',
    })
  })

  it('escapes terminal control characters without changing the decoded value', () => {
    const lines: string[] = []
    const { log } = createLog({ level: 'info', secrets: [], destination: { write: line => lines.push(line) } })
    const evil = 'a\u202eb\u009b31mc\u2028d\u007fe\u2066f\u061cg\u{e0041}'
    log.error({ [evil]: evil, list: [{ [evil]: [evil] }], error: new Error(evil) }, evil)
    // Also in a line with a redacted secret.
    log.error({ detail: `${evil} tg_live_abcdef` }, evil)
    expect(lines).toHaveLength(2)
    for (const line of lines) {
      expect(visible(line.trimEnd())).toBe(line.trimEnd())
      expect(JSON.parse(line)).toMatchObject({ msg: evil })
    }
    expect(JSON.parse(lines[0]!)).toMatchObject({ [evil]: evil, list: [{ [evil]: [evil] }], error: { message: evil } })
  })

  it('redacts a secret that an error message escaped', () => {
    const lines: string[] = []
    const secret = 'zero\u200bwidth\nlines-secret'
    const { log } = createLog({ level: 'info', secrets: [secret], destination: { write: line => lines.push(line) } })
    log.error({ error: refuse('bad_request', { message: `sent ${secret}` }) }, 'm')
    expect(lines[0]).not.toContain('width')
    expect(lines[0]).toContain('[secret]')
  })

  it('has unique field names: a plugin cannot forge the step or the time', () => {
    const { lines, forStep } = capture({})
    forStep('burst').info({ step: 'credits', level: 'error', time: 0, msg: 'x' }, 'm')
    expect(JSON.parse(lines[0]!)).toEqual({
      level: 'info',
      time: '2026-11-21T12:00:00.123Z',
      step: 'burst',
      step_: 'credits',
      level_: 'error',
      time_: 0,
      msg_: 'x',
      msg: 'm',
    })
    for (const name of ['step', 'level', 'time', 'msg']) expect(lines[0]!.split(`"${name}":`)).toHaveLength(2)
  })

  it('contains errors with their causes and own fields', () => {
    const { lines, log } = capture({})
    const cause = Object.assign(new TypeError('inner'), { code: 'ECONNRESET' })
    log.error({ error: Object.assign(new Error('outer', { cause }), { status: 502 }) }, 'm')
    const { error } = JSON.parse(lines[0]!)
    expect(error).toMatchObject({
      name: 'Error',
      message: 'outer',
      status: 502,
      cause: { name: 'TypeError', message: 'inner', code: 'ECONNRESET' },
    })
    expect(error.stack).toContain('log.test.ts')
  })

  it.each<[string, unknown, unknown]>([
    ['bytes', Buffer.from('prompt'), '[6 bytes]'],
    ['an integer of any size', 12345678901234567890n, '12345678901234567890'],
    ['a function', Math.max, '[function max]'],
    ['a symbol', Symbol('s'), 'Symbol(s)'],
    ['a date', new Date(0), '1970-01-01T00:00:00.000Z'],
    ['no date', new Date(Number.NaN), '[invalid date]'],
    ['no number', Number.NaN, null],
    ['null', null, null],
    ['five levels', { a: { b: { c: { d: { e: 1 } } } } }, { a: { b: { c: { d: '[object]' } } } }],
    ['a deep list', [[[[[1, 2]]]]], [[[['[list of 2]']]]]],
    ['a long list', Array(102).fill(1), [...Array(100).fill(1), '… 2 more']],
    ['a toJSON that lies', { toJSON: () => 'lie' }, { toJSON: '[function toJSON]' }],
  ])('%s', (_title, value, written) => {
    const { lines, log } = capture({})
    log.info({ value }, 'm')
    expect(JSON.parse(lines[0]!).value).toEqual(written)
  })

  it('is written even if a value cannot be read', () => {
    const { lines, log } = capture({})
    const cyclic: Record<string, unknown> = { name: 'cyclic' }
    cyclic['self'] = cyclic
    const error = new Error('x')
    error.cause = error
    const throwing = {
      get bad() {
        throw new Error('no')
      },
      good: 1,
    }
    const hostile = new Proxy(
      {},
      {
        ownKeys: () => {
          throw new Error('never')
        },
      },
    )
    log.info({ cyclic, error, throwing, hostile, nothing: Object.create(null) }, 'm')
    const line = JSON.parse(lines[0]!)
    expect(line.throwing).toEqual({ bad: '[cannot be read: no]', good: 1 })
    expect(line.hostile).toBe('[cannot be read: never]')
    expect(line.cyclic.self.self.name).toBe('cyclic')
  })

  it('has a maximum size', () => {
    const { lines, log } = capture({})
    const leaf = Object.fromEntries(Array.from({ length: 100 }, (_, index) => [`k${index}`, 'x'.repeat(9000)]))
    const tree = Object.fromEntries(Array.from({ length: 100 }, (_, index) => [`k${index}`, leaf]))
    log.info({ tree: { a: tree, b: tree }, text: 'z'.repeat(10_000_000) }, 'm'.repeat(10_000_000))
    expect(lines[0]!.length).toBeLessThan(150_000)
    JSON.parse(lines[0]!)
  })

  it.each([...LOG_LEVELS])('is written from the level %s on', level => {
    const { lines, log, forStep } = capture({ level })
    for (const each of [log, forStep('s')]) {
      each.info({}, 'info')
      each.warn({}, 'warn')
      each.error({}, 'error')
    }
    const written = ['info', 'warn', 'error'].slice(LOG_LEVELS.indexOf(level))
    expect(lines.map(line => JSON.parse(line).msg)).toEqual([...written, ...written])
  })

  it.each(['verbose', '', 'INFO', 'toString'])(
    'the level "%s" is refused, and the error lists the valid levels',
    level => {
      expect(() => capture({ level })).toThrow(`the log level "${level}" is not one of info, warn, error, silent`)
    },
  )
})

describe('stdout', () => {
  const MODULE = new URL('../../src/observe/log.ts', import.meta.url).href
  const run = (code: string) =>
    spawn(process.execPath, ['--input-type=module', '--eval', `import { createLog } from '${MODULE}'; ${code}`])

  it('receives every line, even if the process exits at once', async () => {
    const child = run(`
      const { log, flush } = createLog({ level: 'info', secrets: ['canary-0001'] })
      for (let index = 0; index < 2000; index++) log.info({ index, detail: 'canary-0001' }, 'm')
      flush()
      process.exit(3)`)
    let out = ''
    child.stdout.on('data', data => {
      out += data
    })
    const [code] = await once(child, 'close')
    const lines = out.split('\n').slice(0, -1)
    expect(code).toBe(3)
    expect(lines).toHaveLength(2000)
    expect(lines.map(line => JSON.parse(line).index)).toEqual(Array.from({ length: 2000 }, (_, index) => index))
    expect(out).not.toContain('canary')
  })

  it('receives exchange lines in batches: before any other line, within 100 ms, and at exit', async () => {
    const summary = new URL('./summary.ts', import.meta.url).href
    const child = run(`
      import { summary } from '${summary}'
      const { log, exchange } = createLog({ level: 'info', secrets: [] })
      const ids = (from, to) => { for (let id = from; id < to; id++) exchange(summary({ id: 'req_' + id })) }
      ids(0, 3)
      log.warn({}, 'behind 3')
      ids(3, 5)
      process.stdin.resume().once('end', () => {
        ids(5, 500)
        process.exit(0)
      })`)
    const lines: { id?: string; msg: string }[] = []
    let rest = ''
    let writes = 0
    child.stdout.on('data', data => {
      writes++
      const parts = (rest + data).split('\n')
      rest = parts.pop()!
      lines.push(...parts.map(line => JSON.parse(line)))
    })
    await expect.poll(() => lines.length).toBe(6)
    expect(lines.map(({ id, msg }) => id ?? msg)).toEqual(['req_0', 'req_1', 'req_2', 'behind 3', 'req_3', 'req_4'])
    child.stdin.end()
    await once(child, 'close')
    expect(lines.filter(({ msg }) => msg === 'exchange')).toHaveLength(500)
    expect(writes).toBeLessThan(50)
  })

  it('can be closed by its reader: the process continues and reports it once on stderr', async () => {
    const child = run(`
      const { log, flush } = createLog({ level: 'info', secrets: [] })
      process.stdin.resume().once('end', () => {
        log.info({}, 'one')
        setImmediate(function again(left = 50) {
          log.info({}, 'more')
          if (left > 0) setImmediate(() => again(left - 1))
          else { flush(); process.exitCode = 4 }
        })
      })`)
    let err = ''
    child.stderr.on('data', data => {
      err += data
    })
    child.stdout.destroy()
    child.stdin.end()
    const [code] = await once(child, 'exit')
    expect(code).toBe(4)
    expect(err.match(/the log can no longer be written/g)).toHaveLength(1)
  })
})

it('the credential after an authorization scheme is redacted on its own too', () => {
  const { lines, log } = capture({ secrets: ['Basic canary-0021-without-its-scheme'] })
  log.info({ detail: 'not canary-0021-without-its-scheme, please' }, 'm')
  expect(lines).toEqual([expect.stringContaining('not [secret], please')])
})

function capture(options: Partial<LogOptions>) {
  const lines: string[] = []
  const destination = { write: (line: string) => lines.push(line) }
  return { lines, ...createLog({ level: 'info', secrets: [], destination, now: () => NOW, ...options }) }
}

/** The encodings in which a line could reveal a secret. */
function leaks(line: string, secret: string): string[] {
  const core = secret.trim()
  const forms = [core, JSON.stringify(core).slice(1, -1), encodeURIComponent(core.toWellFormed())]
  return [...forms, ...forms.map(form => JSON.stringify(form).slice(1, -1))].filter(form => line.includes(form))
}

function causes(depth: number, message: string): Error {
  return depth === 0 ? new Error(message) : new Error('outer', { cause: causes(depth - 1, message) })
}

function named(error: Error, name: string): Error {
  error.name = name
  return error
}
