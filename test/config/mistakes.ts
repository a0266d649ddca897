/**
 * Generates mistakes from the schemas, each in a configuration with every key. A mistake is a misspelt key, a value of
 * another type or out of bounds, or a missing required key.
 */
import { isMap, isScalar, isSeq, type Node, type Pair, parseDocument, type Scalar } from 'yaml'
import type { UnitName } from '#contract'
import { POLICY_SCHEMA } from '../../src/config/policy-schema.ts'
import { GATEWAY_SCHEMA } from '../../src/config/schema.ts'
import type { Rule } from '../../src/config/yaml/rules.ts'
import { standIns } from './stand-ins.ts'
import { WHOLE_FILES } from './whole.ts'

/** The keywords of a schema that are read here. */
export interface Schema {
  readonly [keyword: string]: unknown
  readonly properties?: Readonly<Record<string, Schema>>
  readonly items?: Schema
  readonly required?: readonly string[]
}

/** A file with one mistake, and the expected problem. */
export interface Mistake {
  readonly name: string
  /** The whole file. */
  readonly text: string
  /** `line:column` of the expected problem. */
  readonly at: string
  readonly rules: readonly Rule[]
  readonly says: string
}

/** Values of each unit: below the bounds, above the bounds, and invalid. */
const UNITS: Readonly<Record<UnitName, readonly [little: string, much: string, other: string]>> = {
  rate: ['0 per minute', '', '60 a minute'],
  duration: ['0ms', '999d', '5 fortnights'],
  bytes: ['0', '999GiB', '5 apples'],
  tokens: ['0', '999G', '5 words'],
  money: ['', '', '5 pounds'],
}

const TWICE: readonly Rule[] = ['duplicate-entry']

/** All mistakes in gateway.yaml. */
export const GATEWAY = mistakesIn('gateway.yaml', GATEWAY_SCHEMA as unknown as Schema)
/** All mistakes in a policy. */
export const POLICY = mistakesIn('policies/standard.yaml', POLICY_SCHEMA as unknown as Schema)

function mistakesIn(file: string, schema: Schema): { mistakes: Mistake[]; seen: Set<Schema> } {
  const text = WHOLE_FILES[file]!
  const mistakes: Mistake[] = []
  const seen = new Set<Schema>()
  const replaced = (from: number, to: number, by: string) => text.slice(0, from) + by + text.slice(to)

  function walk(node: Node, schema: Schema, path: string): void {
    seen.add(schema)
    if (isMap(node)) walkMap(node.items as Pair<Scalar, Node>[], mapSchema(schema), path, node)
    if (isSeq(node) && schema.items) {
      for (const [i, item] of node.items.entries()) walk(item as Node, schema.items, `${path}/${i}`)
    }
  }

  function walkMap(pairs: readonly Pair<Scalar, Node>[], schema: Schema, path: string, parent: Node): void {
    const settings = pairs.find(({ key }) => key.value === 'use')?.value
    for (const [i, { key, value }] of pairs.entries()) {
      const name = String(key.value)
      const own = schema.properties?.[name]
      const inner = name === 'with' && isScalar(settings) ? settingsOf(String(settings.value)) : undefined
      if (own) seen.add(own)
      const meant = inner ?? own ?? (schema['additionalProperties'] as Schema)
      const at = `${path}/${name}`
      if (own) misspell(key, name, at)
      spoil(value!, meant, at)
      if (schema.required?.includes(name) && pairs.length > 1) remove(pairs, i, at, parent)
      walk(value!, meant, at)
    }
  }

  function misspell(key: Scalar, name: string, path: string): void {
    const [from, to] = key.range!
    add(`${path} misspelt`, replaced(from, to, `${name}x`), from, ['unknown-key'], `unknown key "${name}x"`)
  }

  /** Replaces a value by one that is not allowed there. */
  function spoil(value: Node, schema: Schema, path: string): void {
    const [from, end] = value.range!
    const to = text.slice(from, end).trimEnd().length + from
    for (const [what, by, rules, says] of wrongValues(schema, value)) {
      add(`${path}: ${what} (${by})`, replaced(from, to, by), from, rules, says)
    }
    if (!isSeq(value) || !schema['uniqueItems']) return
    const [first] = value.items as Node[]
    const entry = text.slice(first!.range![0], first!.range![1])
    const start = `[ ${entry}, `
    add(`${path}: an entry twice`, replaced(from, to, `${start}${entry} ]`), from + start.length, TWICE, 'twice')
  }

  function remove(pairs: readonly Pair<Scalar, Node>[], i: number, path: string, parent: Node): void {
    const [pair, next, previous] = [pairs[i]!, pairs[i + 1], pairs[i - 1]]
    const to = next === undefined ? pair.value!.range![1] : next.key.range![0]
    // With the last entry in braces, the comma before it is removed too.
    const inBraces = (parent as { flow?: boolean }).flow === true
    const begin = next === undefined && inBraces ? previous!.value!.range![1] : pair.key.range![0]
    const name = String(pair.key.value)
    add(`${path} missing`, replaced(begin, to, ''), parent.range![0], ['missing-key', 'no-price'], `no "${name}"`)
  }

  function add(name: string, broken: string, offset: number, rules: readonly Rule[], says: string): void {
    const before = broken.slice(0, offset).split('\n')
    mistakes.push({ name, text: broken, at: `${before.length}:${before.at(-1)!.length + 1}`, rules, says })
  }

  walk(parseDocument(text).contents!, schema, '')
  return { mistakes, seen }
}

/** A price is the word `free` or a map. */
function mapSchema(schema: Schema): Schema {
  return (schema['else'] as Schema | undefined) ?? schema
}

function settingsOf(use: string): Schema {
  return standIns.find(({ name }) => name === use)!.settings as unknown as Schema
}

type Wrong = readonly [what: string, by: string, rules: readonly Rule[], says: string]

function wrongValues(schema: Schema, value: Node): Wrong[] {
  const wrong: Wrong[] = []
  const shape: readonly Rule[] = ['wrong-type', 'wrong-value']
  const isCollection = isMap(value) || isSeq(value)
  wrong.push([
    'another type',
    isCollection ? 'wrong' : '[ wrong ]',
    isCollection && schema['else'] ? ['wrong-value', 'unreadable-file'] : shape,
    '',
  ])
  const types = [schema['type'] ?? []].flat()
  const { minimum, maximum } = schema as { minimum?: number; maximum?: number }
  if (types.includes('integer') || types.includes('boolean')) wrong.push(['a word', 'wrong', ['wrong-type'], 'must be'])
  if (types.includes('integer')) wrong.push(['a fraction', '1.5', ['wrong-type'], 'a whole number'])
  if (types.includes('string') && types.length === 1) wrong.push(['a number', '12', ['wrong-type'], 'not 12'])
  if (minimum !== undefined) wrong.push(['too small', String(minimum - 1), ['out-of-bounds'], `at least ${minimum}`])
  if (maximum !== undefined) wrong.push(['too large', String(maximum + 1), ['out-of-bounds'], `at most ${maximum}`])
  if (schema['minLength'] === 1) wrong.push(['empty', '""', ['out-of-bounds', 'wrong-value'], ''])
  if (schema['minItems'] === 1) wrong.push(['no entries', '[]', ['out-of-bounds'], 'needs at least one entry'])
  if (schema['enum']) wrong.push(['another word', 'elsewhat', ['wrong-value'], ''])
  if (schema['pattern']) wrong.push(['another pattern', '" ? "', ['wrong-value'], ''])
  if (schema['const'] !== undefined) wrong.push(['another one', '99', ['wrong-value'], ''])
  return [...wrong, ...wrongUnits(schema)]
}

function wrongUnits(schema: Schema): Wrong[] {
  const unit = /#\/\$defs\/(\w+)$/.exec(String(schema['$ref']))?.[1] as UnitName | undefined
  if (unit === undefined) return []
  const [little, much, other] = UNITS[unit]
  const { within } = schema as { within?: { from: string; to: string } }
  const wrong: Wrong[] = [['not of its unit', other, ['wrong-unit'], `"${other}" is not`]]
  if (unit === 'rate') wrong.push(['too little', little, ['wrong-unit'], 'must allow at least 1'])
  if (within === undefined) return wrong
  const says = `must be between ${within.from} and ${within.to}`
  if (!/^0/.test(within.from)) wrong.push(['too little', little, ['out-of-bounds'], says])
  return [...wrong, ['too much', much, ['out-of-bounds'], says]]
}
