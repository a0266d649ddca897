/** `serve` and `demo` as real processes with real sockets. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, readdirSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { CONFIGURATION, makePlace, type Place, STANDARD_POLICY } from './helpers.ts'

const SCRIPT = new URL('../../src/cli/tollgate.js', import.meta.url).pathname
const cleanups: (() => unknown)[] = []
let place: Place

beforeEach(() => {
  place = makePlace(CONFIGURATION)
  mkdirSync(join(place.folder, 'policies'))
  place.write('policies/standard.yaml', STANDARD_POLICY)
})
afterEach(async () => {
  for (const clean of cleanups.splice(0).reverse()) await clean()
  place.remove()
})

interface Process {
  readonly child: ChildProcess
  /** Resolves once stdout matches; rejects if the process ends before. */
  until(pattern: RegExp): Promise<RegExpExecArray>
  readonly ended: Promise<{ code: number | null; signal: string | null; out: string; err: string }>
}

function tollgate(args: readonly string[], env: Record<string, string> = {}): Process {
  const child = spawn(process.execPath, [SCRIPT, ...args], { cwd: place.folder, env: { ...process.env, ...env } })
  let [out, err] = ['', '']
  child.stdout.setEncoding('utf8').on('data', text => {
    out += text
  })
  child.stderr.setEncoding('utf8').on('data', text => {
    err += text
  })
  const ended = once(child, 'close').then(([code, signal]) => ({ code, signal, out, err }))
  cleanups.push(async () => {
    child.kill('SIGKILL')
    await ended
  })
  return {
    child,
    ended,
    async until(pattern) {
      for (;;) {
        const match = pattern.exec(out)
        if (match) return match
        const more = once(child.stdout, 'data')
        const over = await Promise.race([more.then(() => false), ended.then(() => true)])
        if (over && !pattern.test(out)) throw new Error(`it ended without ${pattern}:\n${out}\n${err}`)
      }
    },
  }
}

async function startFirst(): Promise<{ running: Process; base: string; key: string }> {
  const running = tollgate(['serve'])
  const [, base, key] = await running.until(/OPENAI_BASE_URL=(\S+)\n\s*export OPENAI_API_KEY=(\S+)\n[\s\S]*Another key/)
  return { running, base: base!, key: key! }
}

function ask(base: string, key: string): Promise<Response> {
  return fetch(`${base}/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'demo-small', messages: [{ role: 'user', content: 'Hello' }] }),
  })
}

test('SIGUSR1 opens no inspector, and the gateway keeps serving', async () => {
  const running = tollgate(['serve'], { NODE_OPTIONS: '--inspect-port=0' })
  const [, base] = await running.until(/OPENAI_BASE_URL=(\S+)/)
  running.child.kill('SIGUSR1')
  // An inspector would report its address on stderr within some milliseconds.
  await new Promise(resolve => setTimeout(resolve, 500))
  expect((await fetch(`${base}/models`)).status).toBe(401)
  running.child.kill('SIGTERM')
  const { code, err } = await running.ended
  expect(code).toBe(0)
  expect(err).not.toContain('Debugger')
})

describe('serve does not start', () => {
  test('with problems in the configuration, which are printed as by check', async () => {
    place.write('gateway.yaml', CONFIGURATION.replace('dialect: demo', 'dialekt: demo'))
    const { code, err } = await tollgate(['serve']).ended
    expect(code).toBe(1)
    expect(err).toMatch(/^gateway\.yaml:5:5: .*dialekt/m)
    expect(err).toContain('has problems, so the gateway was not started.')
    expect(existsSync(join(place.folder, '.tollgate'))).toBe(false)
  })

  test('without a configuration', async () => {
    const { code, err } = await place.tollgate(['serve', '-c', 'nowhere.yaml'])
    expect(code).toBe(1)
    expect(err).toContain('nowhere.yaml:1:1: the configuration cannot be read: the file does not exist')
  })

  test.each(['listen', 'dashboard', 'admin'])(
    'if the port of %s is taken: the message has the address and the key',
    async key => {
      const other = createServer().listen(0, '127.0.0.1')
      await once(other, 'listening')
      cleanups.push(() => other.close())
      const { port } = other.address() as AddressInfo
      const rest = key === 'listen' ? CONFIGURATION.replace('listen: 127.0.0.1:0\n', '') : CONFIGURATION
      place.write('gateway.yaml', `${rest}${key}: 127.0.0.1:${port}\n`)
      const { code, err } = await place.tollgate(['serve'])
      expect(code).toBe(1)
      expect(err).toContain(`127.0.0.1:${port} is in use by another program`)
      expect(err).toContain(`the key "${key}"`)
    },
  )

  test('on a store of another gateway: the message has its pid and its age', async () => {
    const { running } = await startFirst()
    const { code, err } = await tollgate(['serve']).ended
    expect(code).toBe(1)
    expect(err).toMatch(new RegExp(`in use by process ${running.child.pid}, for \\d+ s`))
  })
})

test('the first start prints a working key; commands reach the running gateway; SIGTERM ends it with 0', async () => {
  const { running, base, key } = await startFirst()
  const answer = await ask(base, key)
  expect(answer.status).toBe(200)
  const cost = answer.headers.get('x-tollgate-cost')
  await answer.json()
  const { account, keys } = await place.json('account.show', 'demo')
  expect(Number(account.available) + Number(cost)).toBeCloseTo(5, 9)
  expect(Number(cost)).toBeGreaterThan(0)

  await place.json('key.revoke', keys[0]!.id)
  const refused = await ask(base, key)
  expect(refused.status).toBe(401)
  await refused.json()
  const { token } = await place.json('key.create', '--account', 'demo')
  expect((await ask(base, token)).status).toBe(200)

  running.child.kill('SIGTERM')
  expect(await running.ended).toMatchObject({ code: 0, signal: null, err: '' })
  expect(readdirSync(join(place.folder, '.tollgate')).filter(name => name.endsWith('.sock'))).toEqual([])

  const again = tollgate(['serve'])
  const [line] = await again.until(/Tollgate answers at .*\n/)
  expect(line).toContain('key create --account demo)')
  again.child.kill('SIGINT')
  const { code, out } = await again.ended
  expect(code).toBe(0)
  expect(out).not.toContain('OPENAI_API_KEY')
})

test('after kill -9 the next gateway starts, replaces the old socket and removes the remains of a restore', async () => {
  const { running, key } = await startFirst()
  running.child.kill('SIGKILL')
  await running.ended
  const left = place.write('.tollgate/tollgate.db.restoring', 'half')
  const again = tollgate(['serve'])
  const [, base] = await again.until(/Tollgate answers at (\S+) .*\n/)
  expect((await ask(base!, key)).status).toBe(200)
  expect((await place.json('account.list')).accounts).toHaveLength(1)
  expect(existsSync(left)).toBe(false)
})

test('the gateway keeps serving when its log has no reader', async () => {
  const { running, base, key } = await startFirst()
  running.child.stdout!.destroy()
  for (let round = 0; round < 3; round++) expect((await ask(base, key)).status).toBe(200)
  running.child.kill('SIGTERM')
  const ended = await running.ended
  expect(ended.code).toBe(0)
  // Reported once, on stderr.
  expect(ended.err).toMatch(/^tollgate: the log can no longer be written: .*EPIPE.*\n$/)
})

test('commands also reach a gateway with store: memory', async () => {
  place.write('gateway.yaml', `${CONFIGURATION}store: memory\n`)
  const { base } = await startFirst()
  const { token } = await place.json('key.create', '--account', 'demo')
  expect((await ask(base, token)).status).toBe(200)
  const verified = await place.tollgate(['ledger', 'verify'])
  expect(verified).toMatchObject({ code: 0, out: expect.stringContaining('OK: 1 account') })
})

test('the demo answers with and without a stream, accounts for every nano-dollar, and leaves no files', async () => {
  const left = () => readdirSync(tmpdir()).filter(name => name.startsWith('tollgate-demo-'))
  const before = left()
  const { code, out, err } = await tollgate(['demo']).ended
  expect({ code, err }).toEqual({ code: 0, err: '' })
  expect(out).toContain('1. A stream')
  expect(out).toContain('2. A whole answer')
  const costs = [...out.matchAll(/cost \$(0\.\d+)/g)].map(match => Number(match[1]))
  expect(costs).toHaveLength(2)
  expect(out).toContain('exactly what both answers cost')
  expect(left()).toEqual(before)
})
