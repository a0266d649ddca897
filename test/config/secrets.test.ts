/** Values from the environment and from secret files are substituted, kept and never shown. */
import { execFileSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { afterAll, describe, expect, onTestFinished, test } from 'vitest'
import { formatProblem, sentence } from '../../src/config/yaml/problem.ts'
import { substitute } from '../../src/config/yaml/substitute.ts'
import { expectProblems, type Files, openWorkshop, PARTS, STANDARD } from './workshop.ts'

const workshop = openWorkshop()
afterAll(() => workshop.close())

const SECRET = `${'s3cr3t-'.repeat(12)}end`
const env = { FAR_KEY: 'far-key-0123456789', SECRET }

describe('no message and no excerpt shows a secret', () => {
  const near = (text: string): Files => ({
    gateway: { providers: `providers:\n  demo: { dialect: demo }\n  far:\n${text}` },
  })
  const rows: [string, Files][] = [
    ['as an address', { gateway: { more: 'listen: ${SECRET}' } }],
    ['as a store', { gateway: { more: 'store: ${SECRET}' } }],
    ['as the address of a database', { gateway: { more: 'store: "postgres://u:${SECRET}@h"' } }],
    ['as a number', { gateway: { more: 'trust_proxy: ${SECRET}' } }],
    ['as a duration', { gateway: { more: 'drain: ${SECRET}' } }],
    ['as a host', { gateway: { more: 'hosts: [ "${SECRET}!" ]' } }],
    ['as a dialect', near('    dialect: ${SECRET}')],
    ['as a base_url', near('    dialect: openai\n    base_url: ${SECRET}')],
    ['in a base_url', near('    dialect: openai\n    base_url: http://a.example/${SECRET}')],
    ['in a query', near('    dialect: openai\n    base_url: https://a.example/v1?key=${SECRET}')],
    [
      'in a key with blanks',
      near('    dialect: openai\n    base_url: https://a.example/v1\n    api_key: "a ${SECRET}"'),
    ],
    ['as a model id', { gateway: { models: PARTS.models.replace('demo,', '"${SECRET}",') } }],
    ['as a price', { gateway: { models: PARTS.models.replace('$0.10', '"${SECRET}"') } }],
    ['as a plugin', { standard: `${STANDARD}  - use: \${SECRET}\n` }],
    ['as a plugin file', { standard: `${STANDARD}  - use: ./\${SECRET}\n` }],
    ['as a setting', { standard: `${STANDARD}  - use: remark\n    with:\n      times: \${SECRET}\n` }],
    [
      'as a part of a unit',
      {
        standard: `${STANDARD}  - use: rate-limit\n    with:\n      per: key\n      requests: \${SECRET} per minute\n`,
      },
    ],
    ['as a unit', { standard: `${STANDARD}  - use: remark\n    with:\n      size: \${SECRET}\n` }],
    ['as a collector', { gateway: { more: 'telemetry: { endpoint: "${SECRET}" }' } }],
    [
      'in the header of a collector',
      { gateway: { more: 'telemetry: { endpoint: http://c.example, headers: { x-team: "${SECRET}" } }' } },
    ],
    ['in a condition', { standard: `${STANDARD}  - use: remark\n    when: \${SECRET} == ""\n` }],
  ]
  test.each(rows)('%s', async (_, files) => {
    const result = await workshop.load(files, env)
    if (!('problems' in result)) throw new Error('accepted')
    const text = result.problems
      .map(problem => formatProblem(problem, [...result.sources].find(([file]) => file.endsWith(problem.file))?.[1]))
      .join('\n')
    expect(text).not.toMatch(/s3cr3t/i)
  })
})

test('a secret that is written out is refused without being repeated', async () => {
  const result = await workshop.load({
    gateway: {
      providers: `providers:
  demo: { dialect: demo }
  far:
    dialect: openai
    base_url: https://a.example/v1
    api_key: written-out-key
    headers: { x-api-key: written-out-header }`,
      more: 'secret: written-out-secret',
    },
  })
  if (!('problems' in result)) throw new Error('accepted')
  const text = result.problems.map(problem => formatProblem(problem, [...result.sources.values()][0])).join('\n')
  expect(text.match(/written in clear here/g)).toHaveLength(3)
  expect(text).not.toContain('written-out')
})

describe('other problems of the file do not show a secret that is written out', () => {
  const far = (rest: string) => `  far: { dialect: openai, base_url: "https://a.example/v1"${rest} }`
  const key = 'api_key: "${FAR_KEY}"'
  const rows: [string, string][] = [
    ['before a misspelt key', far(', api_key: INLINE-0123456789, timeuots: { total: 1s }')],
    ['before a wrong value', far(', api_key: INLINE-0123456789, timeouts: { total: soon }')],
    ['under a misspelt key', far(', api_kye: INLINE-0123456789')],
    ['under its key in capitals', far(', API_KEY: INLINE-0123456789')],
    ['under an unknown key', far(`, ${key}, token: INLINE-0123456789`)],
    ['under another unknown key', far(`, ${key}, key: INLINE-0123456789`)],
    ['without a blank after its key', far(', api_key:INLINE-0123456789')],
    ['twice', '  far:\n    dialect: openai\n    api_key: INLINE-0123456789\n    api_key: INLINE-9876543210'],
    ['as a list', '  far:\n    dialect: openai\n    api_key:\n      - INLINE-0123456789\n      - INLINE-9876543210'],
    ['as a list in braces', far(', api_key: [ INLINE-0123456789, INLINE-9876543210 ], weight: 1')],
    ['as a map', far(', api_key: { name: INLINE-0123456789 }')],
    ['as a number', far(', api_key: 7246001234')],
    ['as a number with too many digits', far(', api_key: 72460012345678901234')],
    ['as a short word', far(', headers: { x-pin: 7246 }')],
    ['as a header', far(`, ${key}, headers: { x-team: INLINE, x-api-key: INLINE-0123456789 }, foo: 1`)],
    ['as all headers', far(`, ${key}, headers: INLINE-0123456789`)],
    ['as the aws of a provider', far(', aws: INLINE-0123456789')],
    ['as the service_account', far(', service_account: INLINE-0123456789')],
    ['over two lines', far(', api_key: "INLINE-0123456789\n    INLINE", weight: 1')],
    [
      'behind an anchor',
      far(', api_key: *own, weight: 1').replace('dialect', 'timeuots: 1, team: &own INLINE-0123456789, dialect'),
    ],
    ['as an anchor', far(', api_key: *INLINE-0123456789')],
    ['as a tag', far(', api_key: !INLINE-0123456789')],
    ['in an address', `  far: { dialect: openai, base_url: "https://u:INLINE-0@a.example/v1", ${key}, weight: 3 }`],
    ['in an address without a scheme', `  far: { dialect: openai, base_url: "u:INLINE-0@a.example/v1", ${key} }`],
    ['in an address misspelt', `  far: { dialect: openai, base_ulr: "https://u:INLINE-0@a.example/v1", ${key} }`],
    ['in a query', `  far: { dialect: openai, base_url: "https://a.example/v1?key=INLINE-0", ${key}, weight: 3 }`],
    ['in place of an address', `  far: { dialect: openai, base_url: sk-INLINE-0123456789, ${key} }`],
    [
      'in the header of a collector',
      `${far('')}\ntelemetry: { endpoint: https://c.example, headers: { authorization: INLINE-0123456789 } }`,
    ],
    [
      'in another header of a collector',
      `${far('')}\ntelemetry: { endpoint: https://c.example, ratoi: 1, headers: { x-key: INLINE-0123456789 } }`,
    ],
    ['in the address of a collector', `${far('')}\ntelemetry: { endpoint: "https://u:INLINE-0@c.example" }`],
    ['in the query of a collector', `${far('')}\ntelemetry: { endpoint: "https://c.example?k=INLINE-0", ratio: 7 }`],
    ['in place of a key', far(`, ${key}, sk-INLINE-0123456789`)],
    ['without its second quote', '  far:\n    api_key: "INLINE-0123456789\n    dialect: openai'],
    ['with a colon in it', '  far:\n    dialect: openai\n    api_key: INLINE-0123456789: x'],
    ['with a colon in it, in braces', far(', api_key: INLINE-0123456789: x')],
    ['with a sign that YAML reserves', far(', api_key: @INLINE-0123456789')],
    ['without a blank after its key, on its own line', '  far:\n    dialect: openai\n    api_key:INLINE-0123456789'],
    [
      'in a list of a broken file',
      '  far:\n    api_keys:\n    - INLINE-0123456789: [\n    - INLINE-9876543210: [\n    dialect: openai',
    ],
  ]
  test.each(rows)('%s', async (_, text) => {
    const result = await workshop.load(
      { gateway: { providers: `providers:\n  demo: { dialect: demo }\n${text}` } },
      env,
    )
    if (!('problems' in result)) throw new Error('accepted')
    const reported = result.problems.flatMap(problem => [
      sentence(problem),
      formatProblem(problem, [...result.sources].find(([file]) => file.endsWith(problem.file))?.[1]),
    ])
    expect(reported.join('\n')).not.toMatch(/INLINE|7246/)
  })

  test('outside of a provider', async () => {
    const result = await workshop.load({
      gateway: { more: 'store: "foo://u:INLINE-0@h/db"\nsecrte: INLINE-0123456789' },
      standard: `${STANDARD}  - { use: remark, wiht: 1, with: { password: INLINE-0123456789 } }\n`,
    })
    if (!('problems' in result)) throw new Error('accepted')
    const texts = [...result.sources]
    const reported = result.problems.map(each =>
      formatProblem(each, texts.find(([file]) => file.endsWith(each.file))?.[1]),
    )
    expect(reported.join('\n')).not.toContain('INLINE')
  })

  test.each([
    ['a reference', far(`, ${key}, weight: 1`)],
    ['a reference in a header', far(`, ${key}, headers: { x-key: "Bearer \${FAR_KEY}" }, weight: 1`)],
    ['a reference that YAML cannot read', far(', api_key: ${FAR_KEY}, weight: 1')],
    ['a plain address', far(`, ${key}, weight: 1`)],
    ['a number of tokens', far(`, ${key}, max_tokens: 1234, weight: 1`)],
  ])('the line of %s is shown', async (_, text) => {
    const result = await workshop.load(
      { gateway: { providers: `providers:\n  demo: { dialect: demo }\n${text}` } },
      env,
    )
    if (!('problems' in result)) throw new Error('accepted')
    const [problem] = result.problems
    expect(formatProblem(problem!, [...result.sources.values()][0])).toContain('weight: 1')
  })
})

test('only substituted values are secrets, and only if they are long enough to be redacted', async () => {
  const { secrets, providers, store } = await workshop.good(
    {
      gateway: {
        more: 'store: "sqlite:${SHORT}/${file:name}"\nsecret: ${SECRET}\nlisten: ${LISTEN}\nadmin: "${HOST}:9090"',
      },
      standard: `${STANDARD}  - use: remark\n    with:\n      text: "see \${DOCS}"\n`,
      name: 'ledger.db\n',
    },
    { ...env, SHORT: 'data', DOCS: 'https://docs.example', LISTEN: '127.0.0.1:8080', HOST: '127.0.0.1' },
  )
  expect([...secrets].sort()).toEqual(['far-key-0123456789', 'https://docs.example', 'ledger.db', SECRET].sort())
  expect(providers.get('far')?.credentials).toEqual(['far-key-0123456789'])
  expect(store).toMatch(/\/data\/ledger\.db$/)
})

describe('a referenced file', () => {
  const named = (path: string) => ({
    gateway: { providers: PARTS.providers.replace('${FAR_KEY}', `▸\${file:${path}}`) },
  })

  test.each<[what: string, make: (path: string) => unknown, says: string]>([
    ['a pipe without a writer', path => execFileSync('mkfifo', [path]), 'it is not a regular file'],
    ['a symlink to a pipe', path => pipeBehind(path), 'it is not a regular file'],
    ['a folder', path => mkdirSync(path), 'it is a folder'],
    ['a device without end', path => symlinkSync('/dev/zero', path), 'it is not a regular file'],
    ['a socket', path => listenAt(path), 'it is not a regular file'],
    ['a byte too large', path => writeFileSync(path, 'k'.repeat(1024 * 1024 + 1)), 'it is larger than 1 MiB'],
    ['not UTF-8', path => writeFileSync(path, Buffer.from([0xff, 0xfe])), 'it is not UTF-8'],
    ['a symlink to nothing', path => symlinkSync(`${path}.missing`, path), 'the file does not exist'],
  ])('is a problem at its place when it is %s', async (_, make, says) => {
    const path = join(workshop.folder, `secret-${randomUUID()}`)
    await make(path)
    await expectProblems(workshop, named(path), `the file ${path} cannot be read: ${says}`)
    const [problem] = await workshop.problems(named(path))
    expect(problem!.rule).toBe('missing-file')
  })

  test.each<[what: string, make: (path: string) => unknown]>([
    ['has 1 MiB', path => writeFileSync(path, `${'k'.repeat(1024 * 1024 - 1)}\n`)],
    [
      'is behind two symlinks, as Kubernetes mounts secrets',
      path => {
        mkdirSync(`${path}.mount/..2026`, { recursive: true })
        writeFileSync(`${path}.mount/..2026/key`, 'kkkkkkkkkk\n')
        symlinkSync('..2026', `${path}.mount/..data`)
        symlinkSync(`${path}.mount/..data/key`, path)
      },
    ],
  ])('is read when it %s', async (_, make) => {
    const path = join(workshop.folder, `secret-${randomUUID()}`)
    make(path)
    const { providers } = await workshop.good({
      gateway: { providers: PARTS.providers.replace('${FAR_KEY}', `\${file:${path}}`) },
    })
    expect(providers.get('far')?.credentials[0]).toMatch(/^k+$/)
  })

  function pipeBehind(path: string): void {
    execFileSync('mkfifo', [`${path}.pipe`])
    symlinkSync(`${path}.pipe`, path)
  }

  async function listenAt(path: string): Promise<void> {
    const server = createServer().listen(path)
    onTestFinished(() => void server.close())
    await once(server, 'listening')
  }
})

test('a substituted value is not parsed as YAML', async () => {
  const { providers } = await workshop.good(
    {
      gateway: { providers: PARTS.providers.replace('${FAR_KEY}', '${FAR_KEY}\n    headers:\n      x-note: ${NOTE}') },
    },
    { FAR_KEY: 'k', NOTE: 'a: { b: [ c ] } # d' },
  )
  expect(providers.get('far')).toMatchObject({ credentials: ['k'], headers: { 'x-note': 'a: { b: [ c ] } # d' } })
})

describe('substitute', () => {
  const files = new Map<string, string | Error>([
    ['a', 'text\n'],
    ['b', 'two\nlines\r\n'],
  ])
  const surroundings = { env: { A: '1', B_2: 'x${A}', EMPTY: '' }, files }
  test.each([
    ['plain', 'plain', []],
    ['${A}', '1', ['1']],
    ['<${A}|${ B_2 }>', '<1|x${A}>', ['1', 'x${A}']],
    ['${EMPTY}.', '.', ['']],
    ['$A $ {A} $${A} $$', '$A $ {A} ${A} $$', []],
    ['${file:a}${file: b }', 'texttwo\nlines', ['text', 'two\nlines']],
  ])('%s', (text, result, values) => {
    expect(substitute(text, surroundings)).toEqual({ text: result, values, problems: [] })
  })
})
