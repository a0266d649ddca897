/** `http` in policy tests: replacements for the HTTP services of plugins. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { runCommand } from '../helpers/command.ts'
import { CONFIGURATION, STANDARD_POLICY } from './helpers.ts'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'tollgate-policy-http-'))
  mkdirSync(join(folder, 'policies'))
  writeFileSync(join(folder, 'gateway.yaml'), CONFIGURATION)
  const steps = STANDARD_POLICY.replace('  - use: credits', '  - use: ./decides.ts\n  - use: credits')
  writeFileSync(join(folder, 'policies/standard.yaml'), steps)
  writeFileSync(join(folder, 'policies/decides.ts'), PLUGIN)
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

/** Asks a service whether a request may pass, lets it pass if the service fails, and notifies a second service. */
const PLUGIN = `import { definePlugin, refuse } from 'tollgate/plugin'
export default definePlugin({
  name: 'decides',
  needs: ['account'],
  settings: { type: 'object', additionalProperties: false, properties: {} },
  create: (_settings, _services, { run }) => async (ctx, next) => {
    ctx.set('x-run', run)
    let allow = true
    try {
      const answer = await fetch('https://policy.example/decide?account=' + ctx.exchange.account.name, {
        method: 'POST',
        signal: AbortSignal.timeout(50),
      })
      if (answer.status === 200) ({ allow } = await answer.json())
      ctx.set('x-service', String(answer.status))
    } catch (error) {
      ctx.set('x-service', error.name === 'TimeoutError' ? 'slow' : error.cause?.code ?? 'failed')
    }
    if (!allow) throw refuse('forbidden', { message: 'The service says no.' })
    await next()
  },
})
`

const run = (text: string) => {
  writeFileSync(join(folder, 'policies/standard.test.yaml'), text)
  return runCommand(folder, ['test'])
}

describe('answers of a service, by URL', () => {
  test('from the file, from the test, and from a step', async () => {
    const { code, out } = await run(`http:
  https://policy.example/decide: { body: { allow: true } }
tests:
  - name: it says yes
    expect: { status: 200, headers: { x-service: 200, x-run: test }, http: { https://policy.example/decide: 1 } }
  - name: it says no, then it is out, slow, broken
    http:
      POST https://policy.example/decide: [{ body: { allow: false } }, { fault: unreachable }]
    expect: { status: 403, decided_by: decides, upstream: 0 }
    then:
      - expect: { status: 200, headers: { x-service: ENETUNREACH } }
      - http: { POST https://policy.example/decide: { fault: silent } }
        expect: { status: 200, headers: { x-service: slow } }
      - http: { POST https://policy.example/decide: { status: 500, body: broken } }
        expect: { status: 200, headers: { x-service: 500 } }
      - http: { "POST https://policy.example/decide?account=acme": { status: 204 } }
        request: { times: 2 }
        expect:
          headers: { x-service: 204 }
          http: { "POST https://policy.example/decide?account=acme": 2, "https://policy.example/decide": 0 }
`)
    expect(out).toBe('2 tests passed (1 file, 7 requests)\n')
    expect(code).toBe(0)
  })

  test('a missing answer fails the test, even if the plugin handles the error', async () => {
    const { code, out } = await run(`tests:
  - name: another path
    http: { https://policy.example/other: {} }
    expect: { status: 200 }
  - name: another method
    http: { GET https://policy.example/decide: {} }
    expect: { status: 200 }
  - name: no call is allowed
    http: {}
    expect: { status: 200 }
  - name: of an outage, without http
    expect: { status: 200, headers: { x-service: ENETUNREACH } }
`)
    expect(code).toBe(1)
    const call = 'a plugin called POST https://policy.example/decide?account=acme, but "http" has no answer for it; it'
    for (const has of ['has https://policy.example/other', 'has GET https://policy.example/decide', 'is empty'])
      expect(out).toContain(`  http\n    - expected an answer for every call\n    + got      ${call} ${has}\n`)
    expect(out).toContain('1 test passed, 3 failed')
  })
})

test.each([
  ['http: { policy.example: {} }', '1:9', 'must be a URL'],
  ['http: { "http://[": {} }', '1:9', 'http://[ is not a URL'],
  ['http: { "https://a.example/": { stauts: 1 } }', '1:33', 'did you mean "status"?'],
  ['http: { "https://a.example/": [] }', '1:31', 'needs at least one entry'],
])('a problem is reported at its place: %s', async (http, place, sentence) => {
  const { code, out } = await run(`${http}\ntests: [{ name: x, expect: { status: 200 } }]\n`)
  expect(code).toBe(1)
  expect(out).toContain(`standard.test.yaml:${place}: `)
  expect(out).toContain(sentence)
})

test('an expectation for a service without an answer is refused, because it could never fail', async () => {
  const { out } = await run(`http: { https://a.example/: {} }
tests: [{ name: x, expect: { http: { https://b.example/: 0 } } }]
`)
  expect(out).toContain('"http" has no service https://b.example/; did you mean "https://a.example/"?')
})
