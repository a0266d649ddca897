/** The configuration reference in Markdown: a table for each map of gateway.yaml and of policies, generated from their schemas. */
import { UNITS_ID, type UnitName } from '#contract'
import { WRITTEN_UNITS } from './json-schema.ts'
import { POLICY_SCHEMA } from './policy-schema.ts'
import { GATEWAY_SCHEMA } from './schema.ts'
import type { Within } from './yaml/ajv.ts'

interface Schema {
  readonly type?: string | readonly string[]
  readonly anyOf?: readonly Schema[]
  readonly description?: string
  readonly default?: unknown
  readonly enum?: readonly string[]
  readonly const?: unknown
  readonly minimum?: number
  readonly maximum?: number
  readonly within?: Within
  readonly $ref?: string
  readonly refused?: string
  readonly properties?: Readonly<Record<string, Schema>>
  readonly required?: readonly string[]
  readonly items?: Schema
  readonly additionalProperties?: Schema | boolean
  /** The words that a price can be. */
  readonly then?: Schema
  /** The map of a price, or the value that can also be the word `auto`. */
  readonly else?: Schema
}

/** A map with its path: `providers.NAME`. */
interface Section {
  readonly path: string
  readonly schema: Schema
}

const INTRODUCTION = `# Configuration reference

All keys of \`gateway.yaml\` and of policy files. \`tollgate schema --markdown\` prints this page from the schema that \`tollgate check\` uses.
[The configuration](README.md) explains the file format, and [the policies](../../policies/README.md) explain steps and conditions.
The settings of a plugin are in [its README](../../plugins/README.md).

NAME, ID and \`[]\` in a heading are a name that you choose, a model id, and each entry of a list. \`\${NAME}\` and \`\${file:PATH}\` can replace any value.
`

export function configurationReference(): string {
  const units = Object.entries(WRITTEN_UNITS).map(([unit, written]) => [unit, written])
  const parts = [
    INTRODUCTION,
    table(['Type', 'Written as'], units),
    '## gateway.yaml\n',
    ...sectionsOf({ path: '', schema: GATEWAY_SCHEMA as Schema }),
    '## Policy\n',
    ...sectionsOf({ path: '', schema: POLICY_SCHEMA as Schema }),
  ]
  return `${parts.join('\n').trimEnd()}\n`
}

/** A map and the maps below it. A map that two keys share has one table. */
function sectionsOf(top: Section): string[] {
  const texts: string[] = []
  const places = new Map<object, string>()
  const add = (section: Section): void => {
    const { path, schema } = section
    if (path !== '') texts.push(`### \`${path}\`\n\n${schema.description}\n`)
    const properties = schema.properties!
    const place = places.get(properties)
    if (place !== undefined) {
      texts.push(`The keys are those of [\`${place}\`](#${anchorOf(place)}).\n`)
      return
    }
    places.set(properties, path)
    const keys = Object.entries(properties).filter(([, key]) => key.refused === undefined)
    const rows = keys.map(([name, key]) => rowOf(name, key, schema.required?.includes(name) === true))
    texts.push(table(['Key', 'Type', 'Default', 'Description'], rows))
    // Lists last: a model's price comes before the costs of its targets.
    for (const [name, key] of [...keys.filter(([, { items }]) => !items), ...keys.filter(([, { items }]) => items)]) {
      const below = mapBelow(path === '' ? name : `${path}.${name}`, key)
      if (below !== null) add(below)
    }
  }
  add(top)
  return texts
}

/** The map below a key: its value, each entry of its list, or each of its named values. */
function mapBelow(path: string, schema: Schema): Section | null {
  const { items, additionalProperties: named } = schema
  if (schema.properties) return { path, schema }
  if (schema.else?.properties) return { path, schema: schema.else }
  if (items?.properties) return { path: `${path}[]`, schema: items }
  if (typeof named === 'object' && named.properties)
    return { path: `${path}.${path === 'models' ? 'ID' : 'NAME'}`, schema: named }
  return null
}

function rowOf(name: string, schema: Schema, isRequired: boolean): string[] {
  // Editors show a default only if the description contains it.
  const [, text, written] = /^(.*?)(?: ?Default: (.+)\.)?$/.exec(schema.description ?? '')!
  const isValue = written !== undefined && (written === schema.default || schema.enum?.includes(written))
  const standard = isValue ? `\`${written}\`` : (written ?? defaultOf(schema.default))
  return [`\`${name}\``, typeOf(schema), isRequired ? '*required*' : standard, text!]
}

function defaultOf(value: unknown): string {
  if (value === undefined || (typeof value === 'object' && Object.keys(value as object).length === 0)) return ''
  return `\`${value}\``
}

function typeOf(schema: Schema): string {
  const { $ref, within, items, minimum, maximum, else: map, additionalProperties: named } = schema
  if (schema.const !== undefined) return `\`${schema.const}\``
  if (schema.enum) return schema.enum.map(word => `\`${word}\``).join(', ')
  if ($ref) {
    const unit = $ref.slice(`${UNITS_ID}#/$defs/`.length) as UnitName
    return within === undefined ? unit : `${unit}, ${within.from} to ${within.to}`
  }
  if (schema.then?.enum) return `${schema.then.enum.map(word => `\`${word}\``).join(', ')} or a map`
  if (map) return map.properties ? 'string or a map' : `\`auto\` or ${typeOf(map)}`
  // In a map, `anyOf` only combines keys.
  if (schema.anyOf && schema.type !== 'object') return schema.anyOf.map(typeOf).join(' or ')
  if (items) return `list: ${typeOf(items)}`
  if (typeof named === 'object') return `map of ${typeOf(named) === 'map' ? 'maps' : 'strings'}`
  if (schema.type === 'object') return 'map'
  if (minimum === undefined) return String(schema.type)
  return maximum === undefined ? `${schema.type}, ${minimum} or more` : `${schema.type}, ${minimum} to ${maximum}`
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |\n`
  return `${line(head)}|${'---|'.repeat(head.length)}\n${rows.map(line).join('')}`
}

/** The anchor that Markdown viewers give to a heading. */
function anchorOf(heading: string): string {
  return heading.toLowerCase().replace(/[^\w -]/g, '')
}
