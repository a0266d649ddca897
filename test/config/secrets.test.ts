/** What comes from the environment and from secret files: put in, kept, and never shown. */
import { afterAll, describe, expect, test } from 'vitest'
import { formatProblem } from '../../src/config/problem.ts'
import { substitute } from '../../src/config/substitute.ts'
import { type Files, openWorkshop, PARTS, STANDARD } from './workshop.ts'

const workshop = openWorkshop()
afterAll(() => workshop.close())

const SECRET = `${'s3cr3t-'.repeat(12)}end`
const env = { FAR_KEY: 'far-key-0123456789', SECRET }

describe('no sentence and no excerpt shows a secret', () => {
  const near = (text: string): Files => ({
    gateway: { providers: `providers:\n  demo: { dialect: demo }\n  far:\n${text}` },
  })
  const rows: [string, Files][] = [
    ['as an address', { gateway: { more: 'listen: ${SECRET}' } }],
    ['as a store', { gateway: { more: 'store: ${SECRET}' } }],
    ['as the address of a database', { gateway: { more: 'store: "postgres://u:${SECRET}@h/db"' } }],
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
  expect(text.match(/written out here/g)).toHaveLength(3)
  expect(text).not.toContain('written-out')
})

test('only what was substituted is a secret, and only when it is long enough to be searched for', async () => {
  const { secrets, providers, store } = await workshop.good(
    {
      gateway: { more: 'store: "sqlite:${SHORT}/${file:name}"\nsecret: ${SECRET}' },
      standard: `${STANDARD}  - use: remark\n    with:\n      text: "see \${DOCS}"\n`,
      name: 'ledger.db\n',
    },
    { ...env, SHORT: 'data', DOCS: 'https://docs.example' },
  )
  expect([...secrets].sort()).toEqual(['far-key-0123456789', 'https://docs.example', 'ledger.db', SECRET].sort())
  expect(providers.get('far')?.credentials).toEqual(['far-key-0123456789'])
  expect(store).toMatch(/\/data\/ledger\.db$/)
})

test('what is put in cannot become YAML', async () => {
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
