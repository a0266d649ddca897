/** `tollgate schema`: its output, and that the schema accepts valid files and refuses those of the wrong shape. */
import { mkdirSync, readFileSync, statSync } from 'node:fs'
import { basename, join } from 'node:path'
import { Ajv, type ValidateFunction } from 'ajv'
import { afterAll, afterEach, beforeEach, describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { editorSchema } from '../../src/config/json-schema.ts'
import { externalPlugins } from '../../src/config/policy/external-plugins.ts'
import { POLICY_SCHEMA } from '../../src/config/policy-schema.ts'
import { GATEWAY_SCHEMA } from '../../src/config/schema.ts'
import { createRegistry, type Registry } from '../../src/loader/registry.ts'
import { POLICY_TEST_SCHEMA } from '../../src/testing/policy/schema.ts'
import { GATEWAY_ROWS } from '../config/gateway-rows.ts'
import { GATEWAY, POLICY } from '../config/mistakes.ts'
import { POLICY_ROWS } from '../config/policy-rows.ts'
import { standIns } from '../config/stand-ins.ts'
import { WHOLE_GATEWAY, WHOLE_POLICY } from '../config/whole.ts'
import { type Files, HERE, openWorkshop, PARTS, STANDARD, textsOf } from '../config/workshop.ts'
import { shareOf } from '../helpers/counts.ts'
import { allFiles, read, samplesOf } from '../helpers/repository.ts'
import { makePlace, type Place } from './helpers.ts'

const workshop = openWorkshop()
afterAll(() => workshop.close())

let place: Place
beforeEach(() => {
  place = makePlace()
  mkdirSync(join(place.folder, 'policies'))
})
afterEach(() => place.remove())

/** Runs only this command: `schema --out -`. */
const schema = (args: readonly string[], config = 'gateway.yaml') => place.tollgate(['schema', '-c', config, ...args])

/** Strict, to refuse our own keywords and those of other drafts. */
function compile(written: object): ValidateFunction {
  return new Ajv({ strict: true, strictRequired: false, strictTypes: false, allowUnionTypes: true }).compile(written)
}

/** The schema of the shipped files, compiled once for all tests, because that takes 0.1 s. */
let ofShipped: Promise<ValidateFunction> | null = null
function shipped(): Promise<ValidateFunction> {
  ofShipped ??= schema(['--out', '-']).then(({ out }) => compile(JSON.parse(out)))
  return ofShipped
}

const complaints = (validate: ValidateFunction, text: string): unknown =>
  validate(parse(text, { schema: 'core' })) ? null : validate.errors

describe('--markdown', () => {
  test('prints src/config/REFERENCE.md', async () => {
    const { code, out } = await schema(['--markdown'])
    expect(code).toBe(0)
    expect(out).toBe(read('src/config/REFERENCE.md'))
  })

  test('has a row for every key, however deep', async () => {
    const { out } = await schema(['--markdown'])
    const named = new Set(Array.from(out.matchAll(/^\| `(\w+)` \|/gm), ([, name]) => name))
    const all = [...namesBelow(GATEWAY_SCHEMA), ...namesBelow(POLICY_SCHEMA)]
    expect(all.length).toBeGreaterThan(90)
    expect(all.filter(name => !named.has(name))).toEqual([])
  })

  test('--out names a file', async () => {
    const { code, out } = await schema(['--markdown', '--out', 'keys.md'])
    expect({ code, out }).toEqual({ code: 0, out: 'Wrote keys.md.\n' })
    expect(readFileSync(join(place.folder, 'keys.md'), 'utf8')).toBe(read('src/config/REFERENCE.md'))
  })

  function namesBelow(schema: object): string[] {
    return Object.entries(schema).flatMap(([keyword, value]) => {
      if (typeof value !== 'object' || value === null) return []
      if (keyword !== 'properties') return namesBelow(value)
      return Object.entries(value as object).flatMap(([name, key]) =>
        'refused' in key ? [] : [name, ...namesBelow(key)],
      )
    })
  }
})

describe('the command', () => {
  test.each(['nowhere/further/schema.json', '/proc/none/schema.json'])('a missing folder: %s', async out => {
    const { code, err } = await schema(['--out', out])
    expect(code).toBe(1)
    expect(err).toMatch(/^error: the folder .* does not exist and cannot be created: ENOENT$/m)
  })

  test('a folder that cannot be written', async () => {
    place.write('taken', '')
    const { code, err } = await schema(['--out', 'taken/schema.json'])
    expect(code).toBe(1)
    expect(err).toMatch(/taken\/schema\.json cannot be written: E/)
  })

  test('a plugin that cannot be loaded is reported, and the rest is written', async () => {
    place.write('policies/mine.yaml', 'steps:\n  - use: ./none.ts\n  - use: npm:nowhere-to-be-found\n')
    const { code, out, err } = await schema(['--out', '-'])
    expect(code).toBe(0)
    expect(err).toMatch(/^The settings of \.\/none\.ts are not in the schema: .* does not exist/m)
    expect(err).toMatch(/^The settings of npm:nowhere-to-be-found are not in the schema: /m)
    const validate = compile(JSON.parse(out))
    expect(complaints(validate, 'steps: [{ use: ./none.ts, with: { whatever: 1 } }]')).toBeNull()
  })

  test('beside gateway.yaml, in a private folder, with lines that refer editors to it', async () => {
    const { code, out, err } = await schema([])
    expect({ code, err }).toEqual({ code: 0, err: '' })
    expect(out).toContain('Wrote .tollgate/schema.json: gateway.yaml, policies and their tests, and the settings of ')
    expect(out).toMatch(/gateway\.yaml +# yaml-language-server: \$schema=\.\/\.tollgate\/schema\.json$/m)
    expect(out).toMatch(/policies\/\*\.yaml +# yaml-language-server: \$schema=\.\.\/\.tollgate\/schema\.json$/m)
    compile(JSON.parse(readFileSync(join(place.folder, '.tollgate/schema.json'), 'utf8')))
    expect(statSync(join(place.folder, '.tollgate')).mode & 0o777).toBe(0o700)
  })

  test('elsewhere', async () => {
    const { out } = await schema(['--out', 'editors/tollgate.json'])
    expect(out).toMatch(/gateway\.yaml +# yaml-language-server: \$schema=\.\/editors\/tollgate\.json$/m)
    compile(JSON.parse(readFileSync(join(place.folder, 'editors/tollgate.json'), 'utf8')))
  })

  test('the settings of a custom plugin, by its path in policies', async () => {
    place.write('policies/hours.ts', OFFICE_HOURS)
    place.write('policies/mine.yaml', 'steps:\n  - use: ./hours.ts\n    with: { open: 1 }\n')
    const { out, err } = await schema(['--out', '-'])
    expect(err).toBe('')
    const validate = compile(JSON.parse(out))
    expect(complaints(validate, 'steps: [{ use: ./hours.ts, with: { open: 9, days: [mon] } }]')).toBeNull()
    expect(complaints(validate, 'steps: [{ use: ./hours.ts, with: { opne: 9 } }]')).not.toBeNull()
    expect(complaints(validate, 'steps: [{ use: ./hours.ts, with: { open: 9, days: [noday] } }]')).not.toBeNull()
    expect(complaints(validate, 'steps: [{ use: ./hours.ts }]'), 'open is required').not.toBeNull()
  })
})

test('a Koa middleware has no known settings, and policy tests have no steps', async () => {
  const loads: string[] = []
  const load: Registry['load'] = async (use, { policyFile }) => {
    loads.push(`${basename(policyFile)}: ${use}`)
    return { plugin: standIns[0]!, origin: 'npm', foreign: use === 'npm:cors', file: null }
  }
  place.write('policies/a.yaml', 'steps: [ { use: npm:cors }, { use: npm:mine }, { use: api-key }, { use: 5 }, null ]')
  place.write('policies/b.yaml', 'steps: [ { use: npm:mine } ]')
  place.write('policies/c.yaml', 'steps: {')
  place.write('policies/a.test.yaml', 'steps: [ { use: npm:other } ]')
  const { plugins, left } = await externalPlugins(join(place.folder, 'gateway.yaml'), { ...createRegistry([]), load })
  expect(loads).toEqual(['a.yaml: npm:cors', 'a.yaml: npm:mine'])
  expect(plugins.map(({ use }) => use)).toEqual(['npm:mine'])
  expect(left).toEqual([])
})

const OFFICE_HOURS = `import { definePlugin } from 'tollgate/plugin'
export default definePlugin({
  name: 'office-hours',
  settings: {
    type: 'object',
    additionalProperties: false,
    required: ['open'],
    $defs: { day: { enum: ['mon', 'tue'] } },
    properties: {
      open: { type: 'integer', minimum: 0, maximum: 23, description: 'The first hour.' },
      days: { type: 'array', items: { $ref: '#/$defs/day' }, description: 'The days.' },
    },
  },
  create: () => async (_, next) => next(),
})
`

describe('accepts valid files', () => {
  const yamls = allFiles().filter(file => file === 'gateway.yaml' || /^policies\/[^/]*\.yaml$/.test(file))

  test.each(yamls)('%s', async file => {
    expect(complaints(await shipped(), read(file))).toBeNull()
  })

  test('the samples of the READMEs that are whole files', async () => {
    const validate = await shipped()
    const samples = ['README.md', 'policies/README.md', 'src/config/README.md'].flatMap(samplesOf)
    const whole = samples.filter(({ language, text }) => language === 'yaml' && /^(version|steps):/m.test(text))
    expect(whole.length).toBeGreaterThan(2)
    for (const { place: where, text } of whole) expect(complaints(validate, text), where).toBeNull()
  })

  const STEP = 'steps:\n  - use: rate-limit\n    with: { per: key, requests: '
  test.each([
    ['a number by reference', `${joined()}trust_proxy: \${HOPS}\n`],
    ['a size by reference', `${joined()}limits: { body: "\${SIZE}" }\n`],
    ['an enum value by reference', joined().replace('dialect: demo', 'dialect: "${DIALECT}"')],
    ['a flag by reference', joined().replace('policy: standard', 'policy: standard, public: "${OPEN}"')],
    ['a plain number of tokens', joined().replace('8Ki', '8192')],
    ['a price without a dollar sign', joined().replace('$0.10', '0.10')],
    ['free', joined().replace(/price:.*/, 'price: free')],
    ['a rate', `${STEP}5 per 10 s }\n`],
    ['a rate with a slash', `${STEP}200k / hour }\n`],
    ['a rate by reference', `${STEP}"\${RATE}" }\n`],
    ['a plugin by reference', 'steps:\n  - use: ${PLUGIN}\n    with: { a: 1 }\n'],
    ['a package', 'steps:\n  - use: npm:@koa/cors\n    with: { origin: "*" }\n'],
  ])('%s', async (_, text) => expect(complaints(await shipped(), text)).toBeNull())
})

function joined(): string {
  return textsOf({})['gateway.yaml']!
}

describe('refuses files of the wrong shape', () => {
  const isWrong = compile(
    editorSchema(
      standIns.map(plugin => ({ use: plugin.name, plugin })),
      POLICY_TEST_SCHEMA,
    ),
  )
  /** The kinds of problems that a schema can find. */
  const OF_SHAPE = ['unknown-key', 'missing-key', 'no-price', 'wrong-type', 'wrong-unit', 'wrong-name']
  const rows = [
    ...GATEWAY_ROWS.map(([name, [, gateway, , more = {}]]) => [name, { ...more, gateway } as Files] as const),
    ...POLICY_ROWS.map(([name, [, files]]) => [name, typeof files === 'string' ? { standard: files } : files] as const),
  ]
  /** Beginnings of the names of rows that only the loader finds: they depend on another key, or on the content of a text. */
  const BEYOND = [
    'REFERENCES: a reference that is',
    'PROVIDERS: no base_url',
    'PROVIDERS: a header name with a blank',
    'PROVIDERS: Azure without a version',
    'PROVIDERS: Foundry without a version',
    'CATALOG: a price without sizes',
    'ROUTES: a raw route without provider',
    'ROUTES: a raw route without price',
  ]

  test('every row with a problem of these kinds', async () => {
    const missed: string[] = []
    let refused = 0
    const some = rows.filter((_, index) => index % shareOf(5) === 0)
    for (const [name, files] of some) {
      const [problem] = await workshop.problems(files)
      if (!OF_SHAPE.includes(problem!.rule)) continue
      const text = textsOf(files)[problem!.file]!.replaceAll(HERE, '')
      if (complaints(isWrong, text) === null) missed.push(name)
      else refused++
    }
    const names = some.map(([name]) => name)
    expect(missed).toEqual(names.filter(name => BEYOND.some(beginning => name.startsWith(beginning))))
    expect(refused).toBeGreaterThan(40 / shareOf(5))
  })

  test('every mistake generated from the schemas, except bounds of units', () => {
    expect([WHOLE_GATEWAY, WHOLE_POLICY].map(text => complaints(isWrong, text))).toEqual([null, null])
    // A pattern has the format of a size; its bounds are only in the description.
    const isBound = ({ says }: { says: string }) => /^must (be between|allow at least)/.test(says)
    const mistakes = [...GATEWAY.mistakes, ...POLICY.mistakes].filter(mistake => !isBound(mistake))
    // A string is the path of a price list, which only the loader can check.
    const missed = mistakes.filter(
      ({ name, text }) => !name.startsWith('/catalog: ') && complaints(isWrong, text) === null,
    )
    expect(missed.map(({ name }) => name)).toEqual([])
    expect(mistakes.length).toBeGreaterThan(400)
  })

  test.each([
    ['a test without a name', 'tests: [ { expect: { status: 200 } } ]'],
    ['a misspelt expectation', 'tests: [ { name: x, expect: { statsu: 200 } } ]'],
    ['a misspelt key', STANDARD.replace('steps', 'stpes')],
    ['a number that is too large', `${joined()}trust_proxy: 17\n`],
    ['an unknown plugin', 'steps:\n  - use: crediits\n'],
    ['a step without the settings that it needs', 'steps:\n  - use: rate-limit\n'],
    ['settings of another plugin', 'steps:\n  - use: schema\n    with: { per: key }\n'],
    ['no routes', joined().replace(PARTS.routes, '')],
  ])('%s', (_, text) => expect(complaints(isWrong, text)).not.toBeNull())
})

test('every key has a description, and so has every setting of every plugin', async () => {
  const written = JSON.parse((await schema(['--out', '-'])).out)
  const bare: string[] = []
  let count = 0
  const walk = (node: unknown, path: string) => {
    if (typeof node !== 'object' || node === null) return
    for (const [key, value] of Object.entries(node)) {
      if (key === 'properties' && !path.endsWith('/if') && !path.endsWith('/then') && !path.endsWith('/properties')) {
        for (const [name, property] of Object.entries(value as Record<string, { description?: string }>)) {
          count++
          if (!property.description) bare.push(`${path}/${name}`)
        }
      }
      walk(value, `${path}/${key}`)
    }
  }
  walk(written.definitions, '')
  expect(bare).toEqual([])
  expect(count).toBeGreaterThan(100)
  expect(written.definitions.gateway.properties.limits.properties.body.description).toBe(
    'The largest request body. Above it: 413. Default: 32MiB. Written as 4MiB, 64KiB, 1000. From 1KiB to 32MiB.',
  )
})
