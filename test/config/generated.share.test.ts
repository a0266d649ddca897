/** All mistakes that mistakes.ts generates from the schemas are refused at the right position. */
import { describe, expect, test } from 'vitest'
import { type LoadResult, loadConfiguration } from '../../src/config/load.ts'
import { POLICY_SCHEMA } from '../../src/config/policy-schema.ts'
import { GATEWAY_SCHEMA } from '../../src/config/schema.ts'
import { sentence } from '../../src/config/yaml/problem.ts'
import { shareOf } from '../helpers/counts.ts'
import { GATEWAY, POLICY, type Schema } from './mistakes.ts'
import { registry, standIns } from './stand-ins.ts'
import { WHOLE_FILES, wholeEnvironment } from './whole.ts'

const env = wholeEnvironment()

function load(broken: Readonly<Record<string, string>> = {}): Promise<LoadResult> {
  const files = { ...WHOLE_FILES, ...broken }
  const readFile = async (path: string) => {
    const found = Object.entries(files).find(([name]) => path === `/whole/${name}`)
    if (found === undefined) throw Object.assign(new Error('no such file'), { code: 'ENOENT' })
    return found[1]
  }
  return loadConfiguration('/whole/gateway.yaml', { env, registry: registry(), readFile })
}

test('the whole configuration is valid', async () => {
  const result = await load()
  expect('problems' in result ? result.problems.map(sentence) : []).toEqual([])
})

test('the whole configuration has every key of the schemas, and every setting of its plugins', () => {
  const keys = (schema: unknown): Schema[] => {
    if (typeof schema !== 'object' || schema === null) return []
    const { properties = {} } = schema as Schema
    return [...Object.values(properties), ...Object.values(schema).flatMap(keys)]
  }
  // The settings of `gauge` are tested in policy-rows.ts.
  const settings = standIns.filter(({ name }) => name !== 'gauge').map(plugin => plugin.settings)
  const wanted = new Set([GATEWAY_SCHEMA, POLICY_SCHEMA, ...settings].flatMap(keys))
  const seen = new Set([...GATEWAY.seen, ...POLICY.seen])
  const unseen = [...wanted].filter(schema => !seen.has(schema))
  expect(unseen.map(schema => schema['description'])).toEqual([])
})

test('there are hundreds of mistakes', () => {
  expect(GATEWAY.mistakes.length + POLICY.mistakes.length).toBeGreaterThan(400)
})

describe.each([
  ['gateway.yaml', GATEWAY.mistakes],
  ['policies/standard.yaml', POLICY.mistakes],
])('%s', (file, mistakes) => {
  const some = mistakes.filter((_, index) => index % shareOf(4) === 0)

  test.each(some.map(mistake => [mistake.name, mistake] as const))('%s', async (_, { text, at, rules, says }) => {
    const result = await load({ [file]: text })
    if (!('problems' in result)) throw new Error(`accepted:\n${text}`)
    const reported = result.problems.map(
      each => `${each.file.replace('/whole/', '')}:${each.line}:${each.column} ${each.rule} ${sentence(each)}`,
    )
    const fitting = result.problems.filter(
      each => each.file.endsWith(`/${file}`) && `${each.line}:${each.column}` === at && rules.includes(each.rule),
    )
    expect(
      fitting.map(sentence).join('\n'),
      `wanted ${rules.join('|')} at ${at}, got\n${reported.join('\n')}`,
    ).toContain(says)
    expect(fitting.length).toBeGreaterThan(0)
    expect(reported, 'one mistake is one problem').toHaveLength(1)
  })
})
