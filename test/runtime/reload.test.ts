/** Changes of the configuration while the gateway serves: nothing is dropped or mixed, and invalid files are reported. */

import { writeFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { definePlugin, rateOf, refuse, type ServiceName } from '#contract'
import type { ReloadResult } from '../../src/runtime/reload.ts'
import { countsOf } from '../helpers/counts.ts'
import { beside, edit, writeSteps } from '../helpers/edit-configuration.ts'
import { exact, type FakeProvider, gated, startFakeProvider } from '../helpers/fake-provider.ts'
import { FIVE_STEPS, type InProcess, type InProcessOptions, PRICE, startInProcess } from '../helpers/in-process.ts'

const counts = countsOf('kills')

const RELOADS = counts(10, 500)
const ANSWER = exact({ tokens: 3 })

let provider: FakeProvider
const running: InProcess[] = []
beforeAll(async () => {
  provider = await startFakeProvider({ script: ANSWER })
})
afterAll(async () => {
  await Promise.all(running.map(each => each.stop()))
  await provider.close()
})

async function start(options: Partial<InProcessOptions> = {}): Promise<InProcess> {
  provider.script(ANSWER)
  const gateway = await startInProcess({ provider: provider.baseUrl, yaml: { admin: '127.0.0.1:0' }, ...options })
  running.push(gateway)
  return gateway
}

const readyz = (gateway: InProcess, url = gateway.running.adminUrl!) =>
  fetch(`${url}/readyz`).then(answer => answer.json())

describe('an invalid configuration changes nothing', () => {
  test('a file that does not load: reported in the log, /readyz and metrics, until it is fixed', async () => {
    const gateway = await start()
    edit(gateway, yaml => {
      yaml['drian'] = '1m'
    })
    expect(await gateway.running.reload()).toBe('refused')
    expect((await gateway.chat()).status).toBe(200)
    expect(await readyz(gateway)).toEqual({
      status: 'ok',
      configuration: expect.stringMatching(/gateway\.yaml:\d+:1: unknown key "drian"; did you mean "drain"\?$/),
    })
    // Clients get no file names and lines.
    expect(await readyz(gateway, gateway.url)).toEqual({
      status: 'ok',
      configuration: 'the last reload was refused: the log says why',
    })
    const line = await gateway.waitForLog(each => each['msg'] === 'the configuration is not changed')
    expect(line).toMatchObject({ level: 'error', column: 1, problem: 'unknown key "drian"; did you mean "drain"?' })
    const metrics = await fetch(`${gateway.running.adminUrl}/metrics`).then(answer => answer.text())
    expect(metrics).toContain('tollgate_reloads_total{result="refused"} 1')
    edit(gateway, yaml => {
      delete yaml['drian']
    })
    expect(await gateway.running.reload()).toBe('unchanged')
    await gateway.waitForLog(each => each['msg'] === 'the files match the running configuration again')
    expect(await readyz(gateway)).toEqual({ status: 'ok' })
  })

  test.each([
    ['listen', '127.0.0.1:1'],
    ['admin', '127.0.0.1:1'],
    ['dashboard', '127.0.0.1:0'],
    ['store', 'sqlite:./other.db'],
    ['state', 'redis://127.0.0.1:2'],
    ['secret', '${OTHER}'],
  ])('%s needs a restart', async (key, value) => {
    const gateway = await start({ env: { OTHER: 'another secret that is long enough' } })
    edit(gateway, yaml => {
      yaml[key] = value
    })
    expect(await gateway.running.reload()).toBe('refused')
    const { configuration } = (await readyz(gateway)) as { configuration: string }
    expect(configuration).toMatch(new RegExp(`gateway\\.yaml:\\d+:1: a change of ${key} needs a restart`))
    expect((await gateway.chat()).status).toBe(200)
  })

  test('a change that needs a restart blocks every other change, and reports it, until it is undone', async () => {
    const gateway = await start()
    let before: unknown
    edit(gateway, yaml => {
      before = yaml['admin']
      yaml['admin'] = '127.0.0.1:1'
    })
    expect(await gateway.running.reload()).toBe('refused')
    writeSteps(
      gateway,
      FIVE_STEPS.toSpliced(2, 0, { use: 'guard', with: { rules: [{ name: 'all', pattern: 'H', action: 'refuse' }] } }),
    )
    expect(await gateway.running.reload()).toBe('refused')
    const says = 'put the old admin back or restart: until then no change of any file is loaded'
    expect(await readyz(gateway)).toMatchObject({ configuration: expect.stringContaining(`needs a restart; ${says}`) })
    await gateway.waitForLog(each => String(each['problem']).endsWith(says))
    expect((await gateway.chat()).status).toBe(200)
    edit(gateway, yaml => {
      yaml['admin'] = before
    })
    expect(await gateway.running.reload()).toBe('changed')
    expect((await gateway.chat()).status).toBe(400)
  })

  test('a step that cannot be created, one that fails at its first request, and one that hangs', async () => {
    const brittle = definePlugin<{ fails: string }>({
      name: 'brittle',
      dryRun: true,
      settings: {
        type: 'object',
        additionalProperties: false,
        properties: { fails: { type: 'string', description: 'When it fails.' } },
      },
      create({ fails }) {
        if (fails === 'at create') throw new Error('the file is missing')
        return async (_ctx, next) => {
          if (fails === 'to go on') return new Promise(() => {})
          if (fails === 'at a request') throw new Error('never thought of that')
          if (fails !== 'to await') await next()
        }
      },
    })
    const steps = (fails: string) => [{ use: 'brittle', with: { fails } }, ...FIVE_STEPS]
    const gateway = await start({ plugins: [brittle], steps: steps('never') })
    for (const [fails, says] of [
      ['at create', 'the file is missing'],
      ['at a request', 'never thought of that'],
      ['to go on', 'did not return within 1000 ms'],
      ['to await', 'returned without next(), an answer or a refusal; add `await next()`, or throw a refusal'],
    ]) {
      writeSteps(gateway, steps(fails!))
      expect(await gateway.running.reload()).toBe('refused')
      expect(await readyz(gateway)).toMatchObject({ configuration: expect.stringContaining(says!) })
      const line = await gateway.waitForLog(each => String(each['problem']).includes(says!))
      const file = expect.stringMatching(/policies\/\w+\.yaml$/)
      expect(line).toMatchObject({ file, line: 2, column: 10, problem: expect.stringContaining(says!) })
      expect((await gateway.chat()).status).toBe(200)
    }
  })
})

/** Plugins whose steps fail if their setting `fails` is true, and counts of their steps. */
function createFailing(handle?: (fails: boolean) => Promise<void>) {
  const counts = { made: 0, disposed: 0 }
  const plugin = (name: string, uses: readonly ServiceName[] = []) =>
    definePlugin<{ fails: boolean }, never, ServiceName>({
      name,
      uses,
      dryRun: handle !== undefined,
      settings: {
        type: 'object',
        additionalProperties: false,
        properties: { fails: { type: 'boolean', default: false, description: 'Whether it fails.' } },
      },
      create({ fails }) {
        counts.made++
        return {
          async handle(_ctx, next) {
            await handle?.(fails)
            await next()
          },
          dispose() {
            counts.disposed++
            if (fails) throw new Error('it does not go')
          },
        }
      },
    })
  return { counts, plugin }
}

const breaks = definePlugin<Record<string, never>>({
  name: 'breaks',
  dryRun: true,
  settings: { type: 'object', additionalProperties: false, properties: {} },
  create() {
    throw new Error(`the key is ${SECRET}`)
  },
})
const SECRET = 'sk-top-secret-0001'

describe('unused resources are released', () => {
  test('the steps before one that cannot be created; and a secret in its error is redacted everywhere', async () => {
    const { counts, plugin } = createFailing()
    const gateway = await start({
      plugins: [plugin('holder'), breaks],
      steps: [{ use: 'holder' }, ...FIVE_STEPS],
      env: { SECRET },
    })
    edit(gateway, yaml => {
      yaml.providers['q'] = { dialect: 'openai', base_url: 'http://127.0.0.1:1/v1', api_key: '${SECRET}' }
    })
    writeSteps(gateway, [{ use: 'holder' }, { use: 'breaks' }, ...FIVE_STEPS])
    expect(await gateway.running.reload()).toBe('refused')
    expect(counts).toEqual({ made: 2, disposed: 1 })
    const status = JSON.stringify(await readyz(gateway))
    expect(status).toContain('the key is [secret]')
    expect(status + JSON.stringify(gateway.log)).not.toContain(SECRET)
  })

  test('a step that fails to dispose does not block the others, and is reported', async () => {
    const { counts, plugin } = createFailing()
    const gateway = await start({
      plugins: [plugin('first'), plugin('second')],
      steps: [{ use: 'first', with: { fails: true } }, { use: 'second' }, ...FIVE_STEPS],
    })
    writeSteps(gateway, FIVE_STEPS)
    expect(await gateway.running.reload()).toBe('changed')
    const line = await gateway.waitForLog(each =>
      String(each['msg']).startsWith('some resources of the old configuration'),
    )
    expect(JSON.stringify(line)).toContain('it does not go')
    expect(counts).toEqual({ made: 2, disposed: 2 })
  })
})

describe('the dry run', () => {
  test('continues after authentication and billing, and leaves no trace', async () => {
    const { counts, plugin } = createFailing(async fails => {
      if (fails) throw new Error('never thought of that')
    })
    const gateway = await start({
      plugins: [plugin('plain'), plugin('counting', ['buckets'])],
      steps: [...FIVE_STEPS, { use: 'plain' }, { use: 'counting' }],
    })
    const balance = gateway.balance()
    for (const use of ['plain', 'counting']) {
      const others = ['plain', 'counting'].filter(other => other !== use).map(other => ({ use: other }))
      writeSteps(gateway, [...FIVE_STEPS, ...others, { use, with: { fails: true } }])
      expect(await gateway.running.reload()).toBe('refused')
      expect(await readyz(gateway)).toMatchObject({
        configuration: expect.stringMatching(new RegExp(`step "${use}".*never thought of that`)),
      })
    }
    writeSteps(gateway, [...FIVE_STEPS, { use: 'counting' }])
    expect(await gateway.running.reload()).toBe('changed')
    // Only the serving step is left; the steps of the dry run were disposed.
    await expect.poll(() => counts.made - counts.disposed).toBe(1)
    expect(gateway.balance()).toEqual(balance)
    expect(gateway.log.filter(line => line['msg'] === 'exchange')).toEqual([])
    expect((await gateway.chat()).status).toBe(200)
  })

  test('does not run a step without `dryRun`, and reports it: its service may be down', async () => {
    const runs: unknown[] = []
    let asked = 0
    const plugin = (name: string, dryRun: boolean) =>
      definePlugin({
        name,
        dryRun,
        settings: { type: 'object', additionalProperties: false, properties: {} },
        create(_settings, _services, { run }) {
          runs.push(`${name} ${run}`)
          return async (_ctx, next) => {
            if (name === 'asking') {
              asked++
              throw new Error('the service is down')
            }
            await next()
          }
        },
      })
    const steps = [{ use: 'harmless' }, ...FIVE_STEPS, { use: 'asking' }]
    const gateway = await start({ plugins: [plugin('harmless', true), plugin('asking', false)], steps })
    expect(runs.splice(0)).toEqual(['harmless serve', 'asking serve'])
    edit(gateway, yaml => {
      yaml.models['m']!['max_output'] = 900
    })
    expect(await gateway.running.reload()).toBe('changed')
    expect({ asked, runs }).toEqual({ asked: 0, runs: ['harmless serve', 'asking serve', 'harmless reload'] })
    const line = await gateway.waitForLog(each => each['msg'] === 'the configuration has changed')
    expect(line['not_run']).toBe('test/asking')
    expect((await gateway.chat()).status).toBe(500)
    expect(asked).toBe(1)
  })

  test('a skipped step that gives facts for later ones ends the dry run', async () => {
    const finder = definePlugin({
      name: 'finder',
      gives: ['chat', 'model'],
      needs: ['account'],
      settings: { type: 'object', additionalProperties: false, properties: {} },
      create: () => async () => {
        throw new Error('the service is down')
      },
    })
    const steps = FIVE_STEPS.map(step => ('use' in step && step.use === 'schema' ? { use: 'finder' } : step))
    const gateway = await start({ plugins: [finder] })
    writeSteps(gateway, steps)
    expect(await gateway.running.reload()).toBe('changed')
  })

  test('a refusal is not a mistake', async () => {
    const { plugin } = createFailing(async fails => {
      if (fails) throw refuse('forbidden')
    })
    const gateway = await start({ plugins: [plugin('strict')] })
    writeSteps(gateway, [...FIVE_STEPS, { use: 'strict', with: { fails: true } }])
    expect(await gateway.running.reload()).toBe('changed')
    expect((await gateway.chat()).status).toBe(403)
  })
})

describe('a change', () => {
  test('applies to the next exchange; one in progress ends with the old configuration', async () => {
    const gateway = await start()
    provider.script(gated({ tokens: 3 }))
    const before = gateway.chat({ stream: true })
    await provider.waitForRequest(provider.requests.length)
    edit(gateway, yaml => {
      yaml.models['m']!.price = { ...PRICE, output: '$4' }
    })
    expect(await gateway.running.reload()).toBe('changed')
    provider.release()
    const old = await before
    await old.text()
    await gateway.exchangeLine(old.headers.get('x-request-id')!)
    const next = await gateway.chat()
    await next.text()
    expect(rateOf(gateway.receipt(old)!.price, 'output')).toBe(2_000_000_000n)
    expect(rateOf(gateway.receipt(next)!.price, 'output')).toBe(4_000_000_000n)
    expect(await gateway.running.reload()).toBe('unchanged')
  })

  test('of a model keeps the connections of a provider; a change of the provider opens new ones', async () => {
    const gateway = await start()
    await (await gateway.chat()).text()
    const { connections } = provider
    edit(gateway, yaml => {
      yaml.models['m']!['max_output'] = 999
    })
    expect(await gateway.running.reload()).toBe('changed')
    await (await gateway.chat()).text()
    expect(provider.connections).toBe(connections)
    edit(gateway, yaml => {
      yaml.providers['p']!['headers'] = { 'x-team': 'blue' }
    })
    expect(await gateway.running.reload()).toBe('changed')
    await (await gateway.chat()).text()
    expect(provider.connections).toBe(connections + 1)
    expect(provider.requests.at(-1)!.headers['x-team']).toBe('blue')
  })

  test('of a file that ${file:} names is noticed, even if other files have the old and the new value', async () => {
    const gateway = await start()
    const put = (name: string, text: string) => writeFileSync(beside(gateway, name), text)
    for (const [name, text] of Object.entries({
      one: 'sk-aaaaaaaa',
      two: 'sk-bbbbbbbb',
      three: 'sk-aaaaaaaa',
      drain: '10m',
    })) {
      put(name, text)
    }
    edit(gateway, yaml => {
      yaml['drain'] = '${file:./drain}'
      for (const name of ['one', 'two', 'three']) {
        yaml.providers[name] = { dialect: 'openai', base_url: 'http://127.0.0.1:1/v1', api_key: `\${file:./${name}}` }
      }
    })
    expect(await gateway.running.reload()).toBe('changed')
    // `drain` is too short for a secret; the new key of `three` is also the key of `two`.
    for (const [name, text] of [
      ['drain', '1m'],
      ['three', 'sk-bbbbbbbb'],
    ]) {
      put(name!, text!)
      expect(await gateway.running.reload()).toBe('changed')
      expect(await gateway.running.reload()).toBe('unchanged')
    }
  })

  test(`${RELOADS} reloads under load: none dropped, none mixed, every old generation released once`, async () => {
    const made = new Set<number>()
    let disposed = 0
    const marked = definePlugin<{ mark: number }>({
      name: 'marked',
      settings: {
        type: 'object',
        additionalProperties: false,
        properties: { mark: { type: 'integer', description: 'Goes into a header.' } },
      },
      create({ mark }) {
        made.add(mark)
        return {
          async handle(ctx, next) {
            ctx.set('x-mark', String(mark))
            await next()
          },
          dispose() {
            disposed++
          },
        }
      },
    })
    const gateway = await start({
      plugins: [marked],
      credit: '1000',
      steps: [{ use: 'marked', with: { mark: 1 } }, ...FIVE_STEPS],
      model: { price: { ...PRICE, output: '$1' } },
    })
    let isRunning = true
    let asked = 0
    const wrong: string[] = []
    const client = async () => {
      for (let index = 0; isRunning; index++) {
        const answer = await gateway.chat(index % 2 === 0 ? { stream: true } : {})
        const text = await answer.text()
        asked++
        if (answer.status !== 200) wrong.push(`${answer.status} ${text}`)
        // Policy and catalog of one answer are from one configuration.
        const price = gateway.receipt(answer)?.price
        const output = price && rateOf(price, 'output')
        const mark = answer.headers.get('x-mark')
        if (output !== BigInt(mark ?? 0) * 1_000_000_000n) wrong.push(`mark ${mark} was charged ${output}`)
      }
    }
    const clients = Array.from({ length: 8 }, client)
    const results: ReloadResult[] = []
    for (let mark = 2; mark < RELOADS + 2; mark++) {
      // Both files at once, like a deployment: gateway.yaml is read first, so it is written last.
      writeSteps(gateway, [{ use: 'marked', with: { mark } }, ...FIVE_STEPS])
      edit(gateway, yaml => {
        yaml.models['m']!.price = { ...PRICE, output: `$${mark}` }
      })
      results.push(await gateway.running.reload())
    }
    isRunning = false
    await Promise.all(clients)
    expect(wrong).toEqual([])
    expect(results.filter(result => result !== 'changed')).toEqual([])
    expect(asked).toBeGreaterThan(RELOADS)
    expect(made.size).toBe(RELOADS + 1)
    await expect.poll(() => disposed).toBe(RELOADS)
  })
})
