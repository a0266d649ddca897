/** `tollgate check`: its formats for other tools, its colours and its exit codes. */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { wantsColours } from '../../src/cli/report.ts'
import { RULES } from '../../src/config/yaml/rules.ts'
import { CONFIGURATION, makePlace, type Place, STANDARD_POLICY } from './helpers.ts'

let place: Place
beforeEach(() => {
  place = makePlace(CONFIGURATION)
  mkdirSync(join(place.folder, 'policies'))
  place.write('policies/standard.yaml', STANDARD_POLICY)
})
afterEach(() => place.remove())

const MISSPELT = CONFIGURATION.replace('pace: 1ms', 'pcae: 1ms')

/** The parts of SARIF 2.1.0 that its schema requires, and those that code scanning also needs. */
const text = { type: 'object', required: ['text'], properties: { text: { type: 'string', minLength: 1 } } }
const SARIF = {
  type: 'object',
  required: ['version', 'runs', '$schema'],
  properties: {
    version: { const: '2.1.0' },
    runs: {
      type: 'array',
      minItems: 1,
      items: {
        type: 'object',
        required: ['tool', 'results', 'columnKind'],
        properties: {
          columnKind: { enum: ['utf16CodeUnits', 'unicodeCodePoints'] },
          tool: {
            type: 'object',
            required: ['driver'],
            properties: {
              driver: {
                type: 'object',
                required: ['name', 'version', 'rules'],
                properties: {
                  rules: {
                    type: 'array',
                    uniqueItems: true,
                    items: {
                      type: 'object',
                      required: ['id'],
                      properties: { id: { type: 'string' }, shortDescription: text },
                    },
                  },
                },
              },
            },
          },
          invocations: { type: 'array', items: { type: 'object', required: ['executionSuccessful'] } },
          originalUriBaseIds: {
            type: 'object',
            additionalProperties: { type: 'object', properties: { uri: { type: 'string', pattern: '^file:///.*/$' } } },
          },
          results: {
            type: 'array',
            items: {
              type: 'object',
              required: ['ruleId', 'ruleIndex', 'message', 'locations'],
              properties: {
                level: { enum: ['none', 'note', 'warning', 'error'] },
                message: text,
                locations: {
                  type: 'array',
                  minItems: 1,
                  items: {
                    type: 'object',
                    required: ['physicalLocation'],
                    properties: {
                      physicalLocation: {
                        type: 'object',
                        required: ['artifactLocation', 'region'],
                        properties: {
                          artifactLocation: {
                            type: 'object',
                            required: ['uri'],
                            properties: { uri: { type: 'string', pattern: "^[A-Za-z0-9._~!$&'()*+,;=:@%/-]+$" } },
                          },
                          region: {
                            type: 'object',
                            required: ['startLine'],
                            properties: {
                              startLine: { type: 'integer', minimum: 1 },
                              startColumn: { type: 'integer', minimum: 1 },
                            },
                          },
                        },
                      },
                    },
                  },
                },
              },
            },
          },
        },
      },
    },
  },
}

describe('sarif', () => {
  const isSarif = new Ajv2020({ strict: false, allErrors: true }).compile(SARIF)

  test('each problem has its rule and its place', async () => {
    place.write('gateway.yaml', MISSPELT)
    const { code, out } = await place.tollgate(['check', '--format', 'sarif'])
    expect(code).toBe(1)
    const log = JSON.parse(out)
    expect(isSarif(log), JSON.stringify(isSarif.errors)).toBe(true)
    const [run] = log.runs
    expect(run.results).toHaveLength(1)
    expect(run.results[0]).toMatchObject({
      ruleId: 'unknown-key',
      level: 'error',
      message: { text: 'unknown key "pcae"; did you mean "pace"?' },
      locations: [
        {
          physicalLocation: {
            artifactLocation: { uri: 'gateway.yaml', uriBaseId: 'SRCROOT' },
            region: { startLine: 6, startColumn: 5 },
          },
        },
      ],
    })
    expect(run.tool.driver.rules[run.results[0].ruleIndex].id).toBe('unknown-key')
    expect(run.tool.driver.rules.map(({ id }: { id: string }) => id)).toEqual(Object.keys(RULES))
    expect(run.tool.driver.version).toMatch(/^\d+\.\d+\.\d+/)
    expect(run.invocations).toEqual([{ executionSuccessful: true, exitCode: 1 }])
  })

  test('a valid configuration has no results, and a file name with spaces becomes a URI', async () => {
    const fine = await place.tollgate(['check', '--format', 'sarif'])
    expect(fine.code).toBe(0)
    const log = JSON.parse(fine.out)
    expect(isSarif(log)).toBe(true)
    expect(log.runs[0].results).toEqual([])

    place.write('my gate#way.yaml', MISSPELT)
    const broken = JSON.parse((await place.tollgate(['check', 'my gate#way.yaml', '--format', 'sarif'])).out)
    expect(isSarif(broken), JSON.stringify(isSarif.errors)).toBe(true)
    expect(broken.runs[0].results[0].locations[0].physicalLocation.artifactLocation.uri).toBe('my%20gate%23way.yaml')
  })

  test('a file outside the folder has an absolute URI', async () => {
    const file = place.write('gateway.yaml', MISSPELT)
    const elsewhere = join(place.folder, 'policies')
    const { out } = await place.tollgate(['check', file, '--format', 'sarif'], { folder: elsewhere })
    const location = JSON.parse(out).runs[0].results[0].locations[0].physicalLocation.artifactLocation
    expect(location).toEqual({ uri: `file://${file}` })
  })
})

describe('github', () => {
  test('each problem is one workflow command, and a summary line follows', async () => {
    place.write('gateway.yaml', MISSPELT)
    const { code, out } = await place.tollgate(['check', '--format', 'github'])
    expect(code).toBe(1)
    expect(out.split('\n')).toEqual([
      '::error file=gateway.yaml,line=6,col=5,title=tollgate%3A unknown-key::unknown key "pcae"; did you mean "pace"?',
      '1 of 1 configuration with problems, 1 in all',
      '',
    ])
  })

  test('characters that would end a command or a property are escaped', async () => {
    place.write('a,b%:\nc.yaml', `${CONFIGURATION}"100%\\n::set-output name=x::": 1\n`)
    const { out } = await place.tollgate(['check', 'a,b%:\nc.yaml', '--format', 'github'])
    const [command, ...rest] = out.split('\n')
    expect(command).toMatch(
      /^::error file=a%2Cb%25%3A%0Ac\.yaml,line=16,col=1,title=[^:]*::unknown key "100%25 ::set-output/,
    )
    expect(rest).toEqual(['1 of 1 configuration with problems, 1 in all', ''])
  })

  test('a valid configuration', async () => {
    expect(await place.tollgate(['check', '--format', 'github'])).toEqual({
      code: 0,
      out: '1 configuration: no problems\n',
      err: '',
    })
  })

  test('a problem of a policy that two configurations use is listed once', async () => {
    place.write('policies/standard.yaml', STANDARD_POLICY.replace('credits', 'creidts'))
    place.write('other.yaml', CONFIGURATION)
    const { out } = await place.tollgate(['check', 'gateway.yaml', 'other.yaml', '--format', 'github'])
    expect(out.match(/^::error .*$/gm)).toHaveLength(1)
    expect(out).toContain('::error file=policies/standard.yaml,line=4,col=10,title=tollgate%3A unknown-plugin::')
    expect(out).toMatch(/^2 of 2 configurations with problems, 1 in all$/m)
  })
})

describe('text', () => {
  test('each of several files is reported, and one summary line follows', async () => {
    place.write('broken.yaml', MISSPELT)
    const { out } = await place.tollgate(['check', 'gateway.yaml', 'broken.yaml'])
    expect(out).toMatch(/^gateway\.yaml: OK: 1 provider, 1 model, 5 routes \(4 derived\)$/m)
    expect(out).toMatch(/^1 problem in broken\.yaml$/m)
    expect(out.trimEnd().split('\n').at(-1)).toBe('1 of 2 configurations with problems, 1 in all')
    const fine = await place.tollgate(['check', 'gateway.yaml', 'gateway.yaml'])
    expect(fine.out.trimEnd().split('\n').at(-1)).toBe('2 configurations: no problems')
  })

  test('colours appear on request, and never in formats for programs', async () => {
    place.write('gateway.yaml', MISSPELT)
    const env = { FORCE_COLOR: '1' }
    const { out } = await place.tollgate(['check'], { env })
    expect(out).toContain('\x1b[1mgateway.yaml:6:5:\x1b[0m unknown key')
    expect(out).toContain('\x1b[31m^\x1b[0m')
    for (const args of [['--no-colour'], ['--no-color'], ['--json'], ['--format', 'sarif'], ['--format', 'github']]) {
      expect((await place.tollgate(['check', ...args], { env })).out, args.join(' ')).not.toContain('\x1b')
    }
    expect((await place.tollgate(['check'])).out).not.toContain('\x1b')
  })
})

describe('wantsColours', () => {
  test.each<[string, Record<string, string>, boolean, boolean, boolean]>([
    ['a pipe', {}, true, false, false],
    ['a terminal', {}, true, true, true],
    ['a terminal without colours', { TERM: 'dumb' }, true, true, false],
    ['NO_COLOR', { NO_COLOR: '1' }, true, true, false],
    ['an empty NO_COLOR', { NO_COLOR: '' }, true, true, true],
    ['FORCE_COLOR in a pipe', { FORCE_COLOR: '1' }, true, false, true],
    ['FORCE_COLOR over NO_COLOR', { FORCE_COLOR: '1', NO_COLOR: '1' }, true, false, true],
    ['FORCE_COLOR=0', { FORCE_COLOR: '0' }, true, true, false],
    ['FORCE_COLOR=false', { FORCE_COLOR: 'false' }, true, true, false],
    ['the flag over FORCE_COLOR', { FORCE_COLOR: '1' }, false, true, false],
  ])('%s', (_, env, allowed, onTerminal, expected) => {
    expect(wantsColours(env, { allowed, onTerminal })).toBe(expected)
  })
})

test('exit codes: 0 valid, 1 problems, 2 a wrong command line', async () => {
  expect((await place.tollgate(['check'])).code).toBe(0)
  place.write('gateway.yaml', MISSPELT)
  for (const format of ['text', 'json', 'sarif', 'github']) {
    expect((await place.tollgate(['check', '--format', format])).code, format).toBe(1)
  }
  for (const args of [['--format', 'xml'], ['--colour'], ['--format']]) {
    expect(await place.tollgate(['check', ...args]), args.join(' ')).toMatchObject({ code: 2, out: '' })
  }
})
