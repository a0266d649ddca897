import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { runCommand } from '../helpers/command.ts'
import { CONFIGURATION, STANDARD_POLICY } from './helpers.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'tollgate-policy-test-'))
  mkdirSync(join(folder, 'policies'))
  writeFileSync(join(folder, 'gateway.yaml'), CONFIGURATION)
  writeFileSync(join(folder, 'policies/standard.yaml'), STANDARD_POLICY)
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

const write = (text: string, name = 'standard.test.yaml') => writeFileSync(join(folder, 'policies', name), text)
const run = (...args: string[]) => runCommand(folder, ['test', ...args])

test.each([
  ['a misspelt key', 'tests:\n  - nam: x\n    expect: { status: 200 }\n', '2:5', 'did you mean "name"?'],
  ['a wrong type', 'tests:\n  - name: x\n    expect: { status: fine }\n', '3:23', 'status must be'],
  [
    'a step that is not there',
    'tests:\n  - name: x\n    expect: { decided_by: creditz }\n',
    '3:27',
    'did you mean "credits"?',
  ],
  [
    'one in the trail',
    'tests:\n  - name: x\n    expect: { trail: { zzz: absent } }\n',
    '3:29',
    'there are api-key, schema',
  ],
  [
    'a code with a slip',
    'tests:\n  - name: x\n    expect: { code: insufficient_qouta }\n',
    '3:21',
    'did you mean "insufficient_quota"?',
  ],
  [
    'later',
    'tests:\n  - name: x\n    expect: { status: 200 }\n    then: [{ expect: { decided_by: rout } }]\n',
    '4:36',
    'did you mean "route"?',
  ],
  ['a misspelt expectation', 'tests:\n  - name: x\n    expect: { statsu: 1 }\n', '3:15', 'did you mean "status"?'],
  ['nothing expected', 'tests:\n  - name: x\n    expect: {}\n', '3:13', 'expect needs at least one entry'],
  ['money that is none', 'tests:\n  - name: x\n    expect: { charged: much }\n', '3:24', 'not an amount'],
  [
    'a pattern that is none',
    'tests:\n  - name: x\n    expect: { headers: { a: "/(/" } }\n',
    '3:29',
    '/(/ is not a pattern',
  ],
  ['a step that cannot be', 'tests:\n  - name: x\n    expect: { trail: { route: gone } }\n', '3:31', 'gone'],
  [
    'one name twice',
    'tests:\n  - { name: x, expect: { status: 200 } }\n  - { name: x, expect: { status: 200 } }\n',
    '3:13',
    'two tests named "x"',
  ],
  [
    'a time that is none',
    'tests:\n  - name: x\n    given: { clock: soon }\n    expect: { status: 200 }\n',
    '3:21',
    'is not a time',
  ],
  [
    'a policy without a route',
    'policy: other\ntests:\n  - { name: x, expect: { status: 200 } }\n',
    '1:1',
    'no route of',
  ],
])('%s is shown at its place', async (_name, text, place, sentence) => {
  write(text)
  const { code, out } = await run()
  expect(code).toBe(1)
  expect(out).toContain(`policies/standard.test.yaml:${place}: `)
  expect(out).toContain(sentence)
})

test('a broken configuration is shown at its own place', async () => {
  write('tests:\n  - { name: x, expect: { status: 200 } }\n')
  writeFileSync(join(folder, 'policies/standard.yaml'), STANDARD_POLICY.replace('credits', 'credtis'))
  const { code, out } = await run()
  expect(code).toBe(1)
  expect(out).toMatch(/standard\.yaml:4:\d+: .*credtis/)
})

test('it is about the configuration that is named', async () => {
  write('tests:\n  - { name: x, expect: { charged: $0.000020 } }\n')
  const charged = async (...args: string[]) => (await run(...args)).out
  const dearer = CONFIGURATION.replace(/input: \$\S+/, 'input: $100,')
  writeFileSync(join(folder, 'dearer.yaml'), dearer)
  const [own, other] = [await charged(), await charged('-c', join(folder, 'dearer.yaml'))]
  expect(other).toMatch(/charged/)
  expect(other).not.toBe(own)
})

test('without any file, and with a name that no test has', async () => {
  expect(await run()).toMatchObject({ code: 1, err: expect.stringContaining('there is no policies/*.test.yaml') })
  write('tests:\n  - { name: x, expect: { status: 200 } }\n')
  const none = await run('--name', 'y')
  expect(none).toMatchObject({ code: 1, err: expect.stringContaining('no test has a name with "y"') })
})

const TWO = `tests:
  - name: passes
    expect: { status: 200, upstream: 1 }
  - name: fails <here>
    given: { account: { balance: $0 } }
    expect:
      status: 200
      code: null
      decided_by: null
      upstream: 1
      headers: { x-should-retry: null }
      trail: { route: passed }
      body: { object: chat.completion }
`

test('a failing test shows both sides and the trail', async () => {
  write(TWO)
  const { code, out } = await run()
  expect(code).toBe(1)
  expect(out).toContain('FAILED policies/standard.test.yaml:4 fails <here>\n')
  expect(out).toContain('  status\n    - expected 200\n    + got      402\n')
  expect(out).toContain('  decided_by\n    - expected null\n    + got      credits\n')
  expect(out).toContain('  trail.route\n    - expected passed\n    + got      absent\n')
  expect(out).toContain('  headers.x-should-retry\n    - expected null\n    + got      false\n')
  expect(out).toContain('  body.object\n    - expected chat.completion\n    + got      nothing\n')
  expect(out).toContain('    credits: refused insufficient_quota')
  expect(out).toMatch(/1 test passed, 1 failed \(1 file, 2 requests\)\n$/)
})

test('by name, as JSON and as JUnit', async () => {
  write(TWO)
  expect(await run('--name', 'passes')).toEqual({ code: 0, out: '1 test passed (1 file, 1 request)\n', err: '' })
  const asJson = JSON.parse((await run('--format', 'json')).out)
  expect(asJson).toMatchObject({ ok: false, files: [{ problems: [], tests: [{ ok: true }, { ok: false, line: 4 }] }] })
  const { out } = await run('--format', 'junit')
  expect(out).toContain('<testsuite name="policies/standard.test.yaml" tests="2" failures="1" errors="0">')
  expect(out).toContain('name="fails &lt;here&gt;"')
})

test('a step after another: time passes, and the account is the same', async () => {
  write(`tests:
  - name: two
    given: { account: { balance: $1 }, clock: 2027-06-01T00:00:00Z }
    request: { stream: true, leaves_after: 1 }
    upstream: { content: [One, " two"] }
    expect: { status: null, outcome: client_left, source: estimated }
    then:
      - after: 90d
        upstream: [{ fault: silent }]
        expect: { status: 504, code: upstream_timeout, upstream: 1, charged: $0 }
`)
  expect(await run()).toEqual({ code: 0, out: '1 test passed (1 file, 2 requests)\n', err: '' })
})

test('the policies that come with the gateway keep what their tests promise', async () => {
  const { code, out } = await runCommand(ROOT, ['test'])
  expect(out).toMatch(/^3\d tests passed \(5 files, \d+ requests\)\n$/)
  expect(code).toBe(0)
})

test('and their tests notice when they do not', async () => {
  for (const part of ['policies', 'gateway.yaml']) cpSync(join(ROOT, part), join(folder, part), { recursive: true })
  writeFileSync(join(folder, 'policies/standard.yaml'), STANDARD_POLICY)
  const { code, out } = await run('policies/standard.test.yaml')
  expect(code).toBe(1)
  expect(out).toContain('twenty requests at once, then one a second')
})
