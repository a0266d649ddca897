import { chmodSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync } from 'node:fs'
import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { readListInput } from '../../src/cli/prices/list-input.ts'
import type { Terminal } from '../../src/cli/terminal.ts'
import { serve } from '../../src/main.ts'
import type { Place } from './helpers.ts'
import { gateway, LIST, MODELS, makePriced, row, writeList } from './price-lists.ts'

let place: Place
beforeEach(() => {
  place = makePriced()
})
afterEach(() => place.remove())

const update = (...args: readonly string[]) => place.tollgate(['prices', 'update', '--from', ...args])
const written = (name = 'prices.json') => readFileSync(join(place.folder, name), 'utf8')
const { _tollgate: _, ...ROWS } = LIST
const before = JSON.stringify(LIST)
const CACHED = { cache_read_input_token_cost: 1.3e-7 }

describe('the written list', () => {
  test('has the models of the used vendors in order, one per line, with the fields that Tollgate reads', async () => {
    writeList(place, {
      sample_spec: { litellm_provider: 'one of the vendors' },
      ...ROWS,
      'deepinfra/acme/small': row(1.5, 4, { supports_vision: true, input_cost_per_image: null }),
      'deepinfra/acme/embed': { litellm_provider: 'deepinfra', mode: 'embedding', input_cost_per_token: 1e-8 },
      'claude-x': row(1, 2, {}, 'anthropic'),
    })
    const { code, out, err } = await update('new.json')
    expect({ code, err }).toEqual({ code: 0, err: '' })
    expect(written()).toBe(`{
  "_tollgate": { "date": "2026-02-03", "from": "new.json" },
  "deepinfra/acme/embed": { "litellm_provider": "deepinfra", "mode": "embedding", "input_cost_per_token": 1e-8 },
  "deepinfra/acme/large": { "litellm_provider": "deepinfra", "mode": "chat", "input_cost_per_token": 0.00001, "output_cost_per_token": 0.00004, "max_input_tokens": 100000, "max_output_tokens": 10000, "cache_read_input_token_cost": 0.000001, "deprecation_date": "2030-05-01" },
  "deepinfra/acme/old": { "litellm_provider": "deepinfra", "mode": "chat", "input_cost_per_token": 0.000003, "output_cost_per_token": 0.000003, "max_input_tokens": 100000, "max_output_tokens": 10000 },
  "deepinfra/acme/small": { "litellm_provider": "deepinfra", "mode": "chat", "input_cost_per_token": 0.0000015, "output_cost_per_token": 0.000004, "max_input_tokens": 100000, "max_output_tokens": 10000 }
}
`)
    expect(out).toMatch(/^infra\/acme\/small +input +\$1 +\$1\.50 /m)
    expect(out).toContain(`Written: prices.json, 4 models of 2026-02-03 from new.json.
Review prices.json, run tollgate check, and reload the gateway. Until then, no price changes.
`)
    const shown = await place.tollgate(['prices', 'show', 'infra/acme/small', '--json'])
    expect(JSON.parse(shown.out).models[0].price_from).toBe('prices.json of 2026-02-03')
  })

  test('is the same when it is read again', async () => {
    writeList(place, ROWS)
    await update('new.json')
    const first = written()
    expect((await update('prices.json')).out).toMatch(/^No price changes\.\n/)
    expect(written().replace('"prices.json"', '"new.json"')).toBe(first)
  })

  test('keeps the format of models.dev', async () => {
    const model = (input: number) => ({
      id: 'x',
      name: 'X',
      cost: { input, output: 4 },
      limit: { context: 100_000, output: 10_000 },
    })
    writeList(place, {
      deepinfra: { name: 'Deep', models: { 'acme/small': model(1), 'acme/large': model(9) } },
      anthropic: { models: { 'claude-x': model(1) } },
    })
    expect((await update('new.json')).code).toBe(0)
    expect(written()).toBe(`{
  "_tollgate": { "date": "2026-02-03", "from": "new.json" },
  "deepinfra": { "models": {
    "acme/large": { "cost": { "input": 9, "output": 4 }, "limit": { "context": 100000, "output": 10000 } },
    "acme/small": { "cost": { "input": 1, "output": 4 }, "limit": { "context": 100000, "output": 10000 } }
  } }
}
`)
    const shown = await place.tollgate(['prices', 'show', 'infra/acme/large', '--json'])
    expect(JSON.parse(shown.out).models[0]).toMatchObject({
      price: { input: '9.000000000' },
      price_from: 'prices.json of 2026-02-03',
    })
  })

  test('has all vendors with --all, and goes to another file with --out', async () => {
    writeList(place, { ...ROWS, 'claude-x': row(1, 2, {}, 'anthropic') })
    const { out } = await update('new.json', '--all', '--out', 'all.json')
    expect(written()).toBe(before)
    expect(JSON.parse(written('all.json'))).toHaveProperty('claude-x')
    expect(out).toContain('Add to ./gateway.yaml:  catalog: all.json\n')
  })

  test('replaces the target of a symbolic link, and leaves no other file', async () => {
    place.write('real.json', before)
    place.write('gateway.yaml', gateway(MODELS, 'catalog: link.json'))
    symlinkSync('real.json', join(place.folder, 'link.json'))
    writeList(place, ROWS)
    expect((await update('new.json')).code).toBe(0)
    expect(written('real.json')).toContain('"date": "2026-02-03"')
    expect(readdirSync(place.folder).sort()).toEqual(
      ['gateway.yaml', 'link.json', 'new.json', 'policies', 'prices.json', 'real.json'].sort(),
    )
  })
})

test('a list that is replaced keeps its mode', async () => {
  chmodSync(join(place.folder, 'prices.json'), 0o664)
  writeList(place, ROWS)
  expect((await update('new.json')).code).toBe(0)
  expect(written()).toContain('"date": "2026-02-03"')
  expect(statSync(join(place.folder, 'prices.json')).mode & 0o777).toBe(0o664)
})

describe('a configuration', () => {
  test('without a catalog gets prices.json, and a line to add', async () => {
    place.write('gateway.yaml', gateway('  m: { targets: [ { provider: openai, model: gpt-5 } ], price: auto }', ''))
    writeList(place, { 'gpt-5': row(1.3, 10, CACHED, 'openai') })
    // This file may have another purpose.
    const refused = await update('new.json')
    expect(refused).toMatchObject({ code: 1, out: '' })
    expect(refused.err).toContain(
      'prices.json exists, but is not the catalog of the configuration. Add "catalog: prices',
    )
    expect(written()).toBe(before)
    rmSync(join(place.folder, 'prices.json'))
    const { code, out } = await update('new.json')
    expect(code).toBe(0)
    expect(out).toContain('Add to ./gateway.yaml:  catalog: prices.json\n')
    expect(out).toMatch(/^m +input +\$1\.25 +\$1\.30 /m)
    expect(written()).toContain('"gpt-5"')
  })

  test('whose list is missing is compared with the built-in list', async () => {
    place.write(
      'gateway.yaml',
      gateway('  m: { targets: [ { provider: openai, model: gpt-5 } ], price: auto }', 'catalog: later.json'),
    )
    writeList(place, { 'gpt-5': row(1.3, 10, CACHED, 'openai') })
    const { code, out } = await update('new.json')
    expect(code).toBe(0)
    expect(out).toMatch(/^m +input +\$1\.25 +\$1\.30 /m)
    expect(written('later.json')).toContain('"gpt-5"')
  })

  test('that cannot load without a list gets its first one', async () => {
    place.write('gateway.yaml', gateway(MODELS, 'catalog: later.json'))
    writeList(place, ROWS)
    const { code, out } = await update('new.json')
    expect(code).toBe(0)
    expect(out).toMatch(/^Written: later\.json, 3 models/)
  })

  test('whose gateway is running keeps its list, because a new one would be used at once', async () => {
    const configFile = join(place.folder, 'gateway.yaml')
    const env = { DEEPINFRA_API_KEY: 'secret-1', OPENAI_API_KEY: 'secret-2' }
    const running = await serve({ configFile, env, signals: false, stdout() {} })
    try {
      writeList(place, { ...ROWS, 'deepinfra/acme/small': row(2, 4) })
      const { code, err } = await update('new.json')
      expect(code).toBe(1)
      expect(err).toContain('A gateway runs with ./gateway.yaml and would use prices.json at once.')
      symlinkSync('prices.json', join(place.folder, 'link.json'))
      const linked = await update('new.json', '--out', 'link.json')
      expect(linked.code).toBe(1)
      expect(linked.err).toContain('and would use link.json at once.')
      expect(written()).toBe(before)
      expect((await update('new.json', '--out', 'next.json')).code).toBe(0)
    } finally {
      running.drain()
      running.drain()
      await running.finished
    }
  })
})

describe('nothing is written', () => {
  test.each<[name: string, list: object | string, says: string]>([
    [
      'for a list with a mistake',
      { ...ROWS, 'deepinfra/acme/x': row(-1, 1) },
      'input_cost_per_token: -0.000001 is not',
    ],
    ['for a list that is not JSON', '{ "a": ', 'new.json:1:1: this price list is not JSON'],
    [
      'for a price that falls to 0',
      { ...ROWS, 'deepinfra/acme/old': row(0, 3) },
      'deepinfra/acme/old: input $3 -> $0. If this is correct, add --accept deepinfra/acme/old.',
    ],
    [
      'for a list without a model of these vendors',
      { 'claude-x': row(1, 2, {}, 'anthropic') },
      'no price list has the model "acme/small" of DeepInfra',
    ],
  ])('%s', async (_name, list, says) => {
    writeList(place, list)
    const { code, err } = await update('new.json')
    expect(code).toBe(1)
    expect(err).toContain(says)
    expect(written()).toBe(before)
  })

  test.each<[name: string, out: string, says: string]>([
    ['the configuration', 'gateway.yaml', 'gateway.yaml was not replaced: this price list is not JSON ('],
    [
      'other JSON',
      'other.json',
      'other.json was not replaced: this price list has no model. Remove the file, or write',
    ],
    ['a link to one of them', 'link.json', 'link.json was not replaced: this price list has no model.'],
    ['a folder', 'policies', 'policies cannot be read and was not replaced: '],
  ])('over %s', async (_name, out, says) => {
    place.write('other.json', '{ "name": "app" }')
    symlinkSync('other.json', join(place.folder, 'link.json'))
    const configuration = written('gateway.yaml')
    writeList(place, ROWS)
    const { code, err } = await update('new.json', '--out', out)
    expect(code).toBe(1)
    expect(err).toContain(`error: ${says}`)
    expect(written('gateway.yaml')).toBe(configuration)
    expect(written('other.json')).toBe('{ "name": "app" }')
  })

  test('for a file that is older than the list in use', async () => {
    writeList(place, ROWS, '2025-12-31')
    const { code, err } = await update('new.json')
    expect(code).toBe(1)
    expect(err).toContain(
      'new.json:1:1: the price list (2025-12-31) is older than prices.json, which is in use (2026-01-05)',
    )
    expect(written()).toBe(before)
  })
})

test('for an accepted jump against the built-in list, a line to add is printed', async () => {
  writeList(place, { ...ROWS, 'gpt-5': row(20, 10, {}, 'openai') })
  expect((await update('new.json')).code).toBe(1)
  const { code, out } = await update('new.json', '--accept', 'openai/gpt-5')
  expect(code).toBe(0)
  expect(out).toContain('Add to ./gateway.yaml:  catalog: { file: prices.json, accept: [openai/gpt-5] }\n')
})

test('for an accepted free model of a wildcard, a line to add is printed', async () => {
  writeList(place, { ...ROWS, 'deepinfra/acme/old': row(0, 0) })
  const { code, out } = await update('new.json', '--accept', 'deepinfra/acme/old')
  expect(code).toBe(0)
  expect(out).toContain('Add to ./gateway.yaml:  catalog: { file: prices.json, accept: [deepinfra/acme/old] }\n')
})

test('as JSON', async () => {
  writeList(place, { ...ROWS, 'deepinfra/acme/small': row(2, 4) })
  const { code, out } = await update('new.json', '--json')
  expect(code).toBe(0)
  expect(JSON.parse(out)).toMatchObject({
    ok: true,
    written: { format: 'LiteLLM', date: '2026-02-03', from: 'new.json', models: 3 },
    changed: expect.arrayContaining([expect.objectContaining({ model: 'infra/acme/small' })]),
    failed: [],
  })
})

describe('a list on the web', () => {
  let server: Server
  let address: string
  let answer: RequestListener
  beforeEach(async () => {
    server = createServer((request, response) => answer(request, response))
    await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
    address = `http://127.0.0.1:${(server.address() as AddressInfo).port}/prices.json`
  })
  afterEach(() => {
    server.closeAllConnections()
    server.close()
  })

  test('has the date of today, and is named without its query', async () => {
    answer = (_request, response) => response.end(JSON.stringify(ROWS))
    const today = () => new Date().toISOString().slice(0, 10)
    const days = [today()]
    expect((await update(`${address}?token=secret`)).code).toBe(0)
    days.push(today())
    const { date, from } = JSON.parse(written())._tollgate
    expect(days).toContain(date)
    expect(from).toBe(address)
  })

  test('is named by its URL in problems', async () => {
    answer = (_request, response) => response.end(JSON.stringify({ ...ROWS, 'deepinfra/acme/x': row(-1, 1) }))
    expect((await update(address)).err).toContain(`${address}:1:`)
  })

  test.each<[name: string, answers: RequestListener, says: string]>([
    ['that is missing', (_, response) => response.writeHead(404).end(), 'answered with status 404.'],
    [
      'elsewhere',
      (_, response) => response.writeHead(302, { location: 'https://example.com/list.json?token=x' }).end(),
      'redirects to another address: https://example.com/list.json. Use that one.',
    ],
    [
      'that is an HTML page',
      (_, response) => response.end('<html>'),
      'is an HTML page, not a price list in JSON. Use the address of the file itself.',
    ],
    ['that breaks off', (_, response) => response.write('{', () => response.destroy()), 'cannot be read: '],
    [
      'that is not UTF-8',
      (_, response) => response.end(Buffer.from([0x7b, 0xff, 0x7d])),
      'cannot be read: it is not UTF-8.',
    ],
  ])('%s', async (_name, answers, says) => {
    answer = answers
    const { code, err } = await update(address)
    expect(code).toBe(1)
    expect(err).toContain(`error: ${address} ${says}`)
    expect(written()).toBe(before)
  })

  test.each([
    ['http://prices.example/list.json', 'http://prices.example/list.json is not https: others could change the prices'],
    ['ftp://prices.example/list.json', 'ftp://prices.example/list.json is not an https address.'],
    ['file:///srv/list.json', 'file:///srv/list.json is not an https address. Write a file as its path.'],
    ['https://me:secret@prices.example/list.json', 'The address at prices.example contains a password. Remove it.'],
    ['https://me:secret@', 'The address of the price list is malformed.'],
  ])('%s is refused without a request', async (from, says) => {
    const { code, err } = await update(from)
    expect(code).toBe(1)
    expect(err).toContain(says)
    expect(err).not.toContain('secret')
  })

  const terminal = { folder: '/' } as Terminal
  test('that never ends is aborted', async () => {
    answer = (_request, response) => response.write('{')
    await expect(readListInput(terminal, address, new Date(0), { ms: 50, bytes: 1000 })).rejects.toThrow(
      `${address} did not send the whole list within 0.05 s.`,
    )
  })

  test('that is too large is aborted', async () => {
    answer = (_request, response) => response.end(' '.repeat(2 * 1024 * 1024))
    const reading = readListInput(terminal, address, new Date(0), { ms: 10_000, bytes: 1024 * 1024 })
    await expect(reading).rejects.toThrow(`${address} is larger than 1 MiB.`)
  })
})
