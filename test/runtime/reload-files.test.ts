/** Which file changes cause a reload (also of missing files), and the order of reloads. */
import { cpSync, mkdirSync, readFileSync, renameSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import type { Configuration } from '../../src/config/configuration.ts'
import { type LoadResult, loadConfiguration } from '../../src/config/load.ts'
import { recordReads } from '../../src/config/yaml/reads.ts'
import { builtinRegistry } from '../../src/loader/builtin.ts'
import type { Generation } from '../../src/request/generation.ts'
import { createReloads, type LoadedFiles, type ReloadResult } from '../../src/runtime/reload.ts'
import { temporaryDirectory } from '../helpers/gateway.ts'

const GOOD = 'steps: [{ use: api-key }]'
const MODELS = '{ m: { targets: [{ provider: demo, model: x }], price: free, context: 8192, max_output: 100 } }'

describe('the files are watched', () => {
  const loading = (file: string) => async (): Promise<LoadResult> => {
    const { reads, readFile } = recordReads(async path => readFileSync(path, 'utf8'), builtinRegistry())
    return {
      configuration: { file, files: [file], secrets: [], routes: [] } as unknown as Configuration,
      catalog: null,
      warnings: [],
      sources: new Map([[file, await readFile(file)]]),
      reads,
    }
  }

  interface BuiltGeneration {
    readonly generation: Generation
    disposed: boolean
  }

  /** Reloads on changes of `file`. By default the configuration is the text of that file. */
  async function watching(file: string, load = loading(file)) {
    const built: BuiltGeneration[] = []
    const results: ReloadResult[] = []
    const reloads = await createReloads({
      first: (await load()) as LoadedFiles,
      load,
      async build() {
        const one: BuiltGeneration = {
          generation: { dispose: async () => void (one.disposed = true) } as unknown as Generation,
          disposed: false,
        }
        built.push(one)
        return one.generation
      },
      attempt: async () => [],
      notRun: () => [],
      log: { info() {}, warn() {}, error() {} },
      redact: text => text,
      now: () => 0,
      done: result => results.push(result),
    })
    return { reloads, built, results }
  }

  test('a symlink that is swapped, as Kubernetes does it', async () => {
    const dir = await temporaryDirectory()
    for (const name of ['one', 'two']) {
      mkdirSync(join(dir, name))
      writeFileSync(join(dir, name, 'gateway.yaml'), name)
    }
    symlinkSync('one', join(dir, 'data'))
    symlinkSync('data/gateway.yaml', join(dir, 'gateway.yaml'))
    const { reloads, results } = await watching(join(dir, 'gateway.yaml'))
    reloads.watch(20)
    // Repeated, because the start of the watching cannot be observed.
    let swaps = 0
    const swap = () => {
      cpSync(join(dir, 'two'), join(dir, `two-${++swaps}`), { recursive: true })
      symlinkSync(`two-${swaps}`, join(dir, 'next'))
      renameSync(join(dir, 'next'), join(dir, 'data'))
      return results
    }
    await expect.poll(swap).toContain('changed')
    expect([...reloads.running().sources.values()]).toEqual(['two'])
    await reloads.dispose()
  })

  test('a file that is only touched causes no new generation', async () => {
    const dir = await temporaryDirectory()
    const file = join(dir, 'gateway.yaml')
    writeFileSync(file, 'one')
    const { reloads, built, results } = await watching(file)
    reloads.watch(20)
    const touch = () => {
      writeFileSync(file, 'one')
      return results.length
    }
    await expect.poll(touch).toBeGreaterThan(0)
    expect(results).toContain('unchanged')
    expect(built).toHaveLength(1)
    await reloads.dispose()
  })

  describe('changes while files are loaded are noticed', () => {
    test('at the start', async () => {
      const dir = await temporaryDirectory()
      const file = join(dir, 'gateway.yaml')
      writeFileSync(file, 'one')
      const { reloads, results } = await watching(file)
      writeFileSync(file, 'another')
      reloads.watch(20)
      await expect.poll(() => results).toContain('changed')
      expect([...reloads.running().sources.values()]).toEqual(['another'])
      await reloads.dispose()
    })

    test('at a reload, once', async () => {
      const dir = await temporaryDirectory()
      const file = join(dir, 'gateway.yaml')
      writeFileSync(file, 'one')
      let late: string | null = null
      const { reloads, results } = await watching(file, async () => {
        const loaded = await loading(file)()
        if (late !== null) writeFileSync(file, late)
        late = null
        return loaded
      })
      reloads.watch(20)
      late = 'and a third'
      writeFileSync(file, 'another')
      await expect.poll(() => [...reloads.running().sources.values()]).toEqual(['and a third'])
      const asked = results.length
      // Several checks later.
      await new Promise(resolve => setTimeout(resolve, 200))
      expect(results.length - asked).toBeLessThan(2)
      await reloads.dispose()
    })

    test('a policy that is written after the gateway.yaml that names it', async () => {
      const dir = await temporaryDirectory()
      const { config, second, nameSecond } = writeConfig(dir)
      const registry = builtinRegistry()
      let isLate = false
      const { reloads, results } = await watching(config, async () => {
        const loaded = await loadConfiguration(config, { env: {}, registry })
        if (isLate) writeFileSync(second, GOOD)
        isLate = false
        return loaded
      })
      reloads.watch(20)
      isLate = true
      nameSecond()
      await expect.poll(() => results).toContain('changed')
      expect(results[0]).toBe('refused')
      expect(reloads.problem()).toBe(null)
      await reloads.dispose()
    })
  })

  /** Writes a configuration with one policy. `nameSecond` adds a route with a second policy. */
  function writeConfig(dir: string) {
    const config = join(dir, 'gateway.yaml')
    const write = (routes: string) =>
      writeFileSync(
        config,
        `version: 1\nproviders: { demo: { dialect: demo } }\nmodels: ${MODELS}\nroutes: [${routes}]\n`,
      )
    const route = (path: string, policy: string) => `{ path: ${path}/v1/models, policy: ${policy}, kind: models }`
    mkdirSync(join(dir, 'policies'))
    writeFileSync(join(dir, 'policies/first.yaml'), GOOD)
    write(route('', 'first'))
    const nameSecond = () => write(`${route('', 'first')}, ${route('/two', 'second')}`)
    return { config, second: join(dir, 'policies/second.yaml'), nameSecond }
  }

  test('generations live until their last exchange is over, eight at most', async () => {
    const dir = await temporaryDirectory()
    const file = join(dir, 'gateway.yaml')
    writeFileSync(file, '0')
    const { reloads, built } = await watching(file)
    for (let number = 1; number <= 8; number++) {
      reloads.entered(reloads.generation())
      writeFileSync(file, String(number))
      expect(await reloads.reload('test')).toBe(number < 8 ? 'changed' : 'refused')
    }
    expect(reloads.problem()).toMatch(/8 configurations are in use/)
    expect(built.map(({ disposed }) => disposed)).not.toContain(true)
    reloads.left(built[0]!.generation)
    expect(built[0]!.disposed).toBe(true)
    expect(reloads.live()).toBe(7)
    expect(await reloads.reload('test')).toBe('changed')
    await reloads.dispose()
    expect(built.every(({ disposed }) => disposed)).toBe(true)
  })

  test('a reload that was refused because of eight generations is repeated when one of them ends', async () => {
    const dir = await temporaryDirectory()
    const file = join(dir, 'gateway.yaml')
    writeFileSync(file, '0')
    const { reloads, built, results } = await watching(file)
    for (let number = 1; number <= 8; number++) {
      reloads.entered(reloads.generation())
      writeFileSync(file, String(number))
      await reloads.reload('test')
    }
    expect(results.at(-1)).toBe('refused')
    reloads.left(built[0]!.generation)
    await expect.poll(() => results.at(-1)).toBe('changed')
    expect(reloads.problem()).toBe(null)
    expect([...reloads.running().sources.values()]).toEqual(['8'])
    await reloads.dispose()
  })

  test('reloads run one at a time, however many are requested, and the last one reads the last files', async () => {
    const dir = await temporaryDirectory()
    const file = join(dir, 'gateway.yaml')
    writeFileSync(file, '0')
    let [active, most, loads] = [0, 0, 0]
    const { reloads } = await watching(file, async () => {
      most = Math.max(most, ++active)
      loads++
      await new Promise(resolve => setImmediate(resolve))
      active--
      return loading(file)()
    })
    const first = reloads.reload('one').then(() => reloads.reload('three'))
    const second = reloads.reload('two').then(() => reloads.reload('four'))
    writeFileSync(file, '1')
    await Promise.all([first, second, reloads.reload('five')])
    expect(most).toBe(1)
    expect(loads).toBeLessThan(6)
    expect([...reloads.running().sources.values()]).toEqual(['1'])
    await reloads.dispose()
  })

  test('a failed reload does not block the next ones', async () => {
    const dir = await temporaryDirectory()
    const file = join(dir, 'gateway.yaml')
    writeFileSync(file, '0')
    let isBroken = false
    const { reloads } = await watching(file, async () => {
      if (isBroken) throw new Error('broken')
      return loading(file)()
    })
    isBroken = true
    const asked = [reloads.reload('one'), reloads.reload('two')]
    expect((await Promise.allSettled(asked)).map(({ status }) => status)).toEqual(['rejected', 'rejected'])
    isBroken = false
    writeFileSync(file, '1')
    expect(await reloads.reload('three')).toBe('changed')
    await reloads.dispose()
  })

  test.each([
    ['a mistake in a new policy', 'steps: [{ use: api-kee }]'],
    ['a missing policy', null],
    ['a policy that names a missing file', 'steps: [{ use: api-key, with: { a: "${file:./wanted}" } }]'],
  ])('the correction of %s is noticed', async (_name, text) => {
    const dir = await temporaryDirectory()
    const { config, second, nameSecond } = writeConfig(dir)
    const registry = builtinRegistry()
    const { reloads, results } = await watching(config, () => loadConfiguration(config, { env: {}, registry }))
    reloads.watch(20)
    if (text !== null) writeFileSync(second, text)
    nameSecond()
    expect(await reloads.reload('test')).toBe('refused')
    expect(reloads.problem()).not.toBe(null)
    // `api-key` has no settings, so the third policy is refused again.
    const [file, corrected] = text?.includes('wanted') ? [join(dir, 'policies/wanted'), 'x'] : [second, GOOD]
    const correct = () => {
      writeFileSync(file, corrected)
      return results.slice(1)
    }
    await expect.poll(correct).toContain(corrected === GOOD ? 'changed' : 'refused')
    await reloads.dispose()
  })
})
