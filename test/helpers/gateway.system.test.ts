import { existsSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { cleanUp, createAccount, startGateway, temporaryDirectory, tollgate } from './gateway.ts'
import { contentOf, readSse } from './sse.ts'

// The command only prints its arguments: this tests how processes run, not the gateway.
const STAND_IN = `
import { readFileSync } from 'node:fs'
const [verb, ...rest] = process.argv.slice(2)
const config = rest[rest.indexOf('--config') + 1]
if (verb === 'serve') {
  if (readFileSync(config, 'utf8').includes('broken')) {
    console.error('gateway.yaml:1:1 this is broken')
    process.exit(2)
  }
  process.on('SIGTERM', () => {
    console.log(JSON.stringify({ msg: 'draining' }))
    process.exit(7)
  })
  console.log('starting up')
  console.log(JSON.stringify({ msg: 'listening', url: 'http://127.0.0.1:1', admin: 'http://127.0.0.1:2' }))
  console.log(JSON.stringify({ msg: 'environment', names: Object.keys(process.env), cwd: process.cwd() }))
  setInterval(() => {}, 1000)
} else if (verb === 'account') {
  console.log(JSON.stringify({ account: { id: 'acc_1', args: rest } }))
} else if (verb === 'key') {
  console.log(JSON.stringify({ key: { id: 'key_1' }, token: rest[rest.indexOf('--account') + 1] + '-token' }))
} else {
  let input = ''
  for await (const text of process.stdin) input += text
  console.log(input + rest.join(' ') + ' ' + process.env.EXTRA)
  console.error('on stderr')
  process.exit(3)
}
`

describe('the gateway as a process', () => {
  it('that ends before it listens rejects with its words', async () => {
    const entry = await standIn()
    await expect(startGateway({ yaml: 'broken: true', entry })).rejects.toThrow(/ended \(2\).*\n.*this is broken/)
  })

  it('starts, reports its address, keeps its log, and stops with its exit code', async () => {
    const entry = await standIn()
    const gateway = await startGateway({
      yaml: { version: 1 },
      policies: { open: 'steps: []', other: { steps: [{ use: 'route' }] } },
      env: { EXTRA: 'yes' },
      entry,
    })
    expect([gateway.url, gateway.adminUrl]).toEqual(['http://127.0.0.1:1', 'http://127.0.0.1:2'])
    expect(await readFile(gateway.config, 'utf8')).toBe('version: 1\n')
    expect(await readFile(join(gateway.dir, 'policies/other.yaml'), 'utf8')).toBe('steps:\n  - use: route\n')
    expect(gateway.logs()[0]).toEqual({ text: 'starting up' })
    const { names, cwd } = await gateway.waitForLog(line => line['msg'] === 'environment')
    expect(names).toContain('EXTRA')
    expect((names as string[]).some(name => /VITEST|NODE_OPTIONS/.test(name))).toBe(false)
    expect(cwd).toBe(gateway.dir)
    const draining = gateway.waitForLog(line => line['msg'] === 'draining')
    expect(await gateway.stop()).toBe(7)
    await draining
  })

  it('has ended after kill9, and can be started again in its directory', async () => {
    const entry = await standIn()
    const first = await startGateway({ yaml: 'a: 1', entry })
    await first.kill9()
    expect(await first.exited).toBeNull()
    expect(() => process.kill(first.pid, 0)).toThrow('ESRCH')
    const second = await startGateway({ yaml: 'a: 2', dir: first.dir, entry })
    expect(second.dir).toBe(first.dir)
    await cleanUp()
    expect(() => process.kill(second.pid, 0)).toThrow('ESRCH')
    expect(existsSync(first.dir)).toBe(false)
  })
})

describe('commands', () => {
  it('give their code and both outputs, and take input', async () => {
    const entry = await standIn()
    const config = join(await temporaryDirectory(), 'gateway.yaml')
    const result = await tollgate(['check', 'this'], { config, entry, env: { EXTRA: 'yes' }, input: 'piped ' })
    expect(result).toEqual({ code: 3, stdout: `piped this --config ${config} yes\n`, stderr: 'on stderr\n' })
  })

  it('make an account and a key', async () => {
    const entry = await standIn()
    const config = join(await temporaryDirectory(), 'gateway.yaml')
    expect(await createAccount({ config }, { credit: '10', entry })).toEqual({
      accountId: 'acc_1',
      keyId: 'key_1',
      key: 'acc_1-token',
    })
  })
})

describe('the real one', () => {
  it('answers, survives kill -9 with its accounts, and ends with 0', async () => {
    const first = await startGateway({
      yaml: {
        version: 1,
        listen: '127.0.0.1:0',
        store: 'sqlite:./.tollgate/tollgate.db',
        providers: { demo: { dialect: 'demo', pace: '0ms' } },
        models: {
          small: {
            targets: [{ provider: 'demo', model: 'demo-small' }],
            context: '8Ki',
            max_output: '1Ki',
            price: PRICE,
          },
        },
        routes: [{ path: '/v1/chat/completions', policy: 'standard' }],
      },
      policies: { standard: { steps: ['api-key', 'schema', 'credits', 'route'].map(use => ({ use })) } },
    })
    const { key } = await createAccount(first, { credit: '1' })
    const ask = async (url: string) => {
      const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
      const body = JSON.stringify({ model: 'small', stream: true, messages: [{ role: 'user', content: 'say: hello' }] })
      return readSse(await fetch(`${url}/v1/chat/completions`, { method: 'POST', headers, body }))
    }
    expect(contentOf(await ask(first.url))).toBe('hello')
    await first.kill9()
    const second = await startGateway({ yaml: await readFile(first.config, 'utf8'), dir: first.dir })
    expect(contentOf(await ask(second.url))).toBe('hello')
    expect(await second.stop()).toBe(0)
  })
})

const PRICE = { per: '1M tokens', input: '$1', output: '$2' }

async function standIn(): Promise<string> {
  const entry = join(await temporaryDirectory(), 'stand-in.mjs')
  await writeFile(entry, STAND_IN)
  return entry
}
