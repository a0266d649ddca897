/** The settings of a step: their shape by the plugin's schema, and what the plugin itself finds wrong with them. */
import { type AnyPlugin, mistakeText, type SettingsProblem, type StepPlace, shownFile } from '#contract'
import { checkShape, unescapePointer } from '../yaml/ajv.ts'
import { freeze } from '../yaml/freeze.ts'
import type { Source } from '../yaml/source.ts'
import { mistakesInSchema } from './schema-mistakes.ts'

interface Asked {
  readonly plugin: AnyPlugin
  readonly builtIn: boolean
  /** Of a plugin that is a file of its own; null otherwise. */
  readonly file: string | null
}

/**
 * Checks what stands in `with` by the plugin's schema, and gives it with units parsed and defaults filled in. Where a value
 * of it could not be read, the others are looked at one by one: whether something is missing cannot be said then.
 */
export function checkSettings(source: Source, address: string, given: unknown, asked: Asked): unknown {
  const { plugin, builtIn } = asked
  const at = `${address}/with`
  // A test holds our own to the same.
  const mistakes = builtIn ? [] : mistakesInSchema(plugin.settings)
  for (const mistake of mistakes) {
    const message = `the settings schema of ${nameOf(asked, source.file)} is wrong: ${mistake}`
    source.report(`${address}/use`, message, { rule: 'broken-plugin' })
  }
  if (mistakes.length > 0) return given
  if (source.sound(at)) return checkShape(source, at, given, plugin.settings)
  const remains = source.reported(at) ? null : source.remains(at, given as object)
  try {
    if (remains !== null) checkShape(source, at, remains, looseOf(plugin.settings))
  } catch {
    // It says itself what it means only as a whole.
  }
  return given
}

/** `the plugin "mine" (plugins/mine.ts)` */
function nameOf({ plugin, file }: Asked, policyFile: string): string {
  return `the plugin "${plugin.name}"${file === null ? '' : ` (${shownFile(file, policyFile)})`}`
}

/** Words about more than one value, which may be true again when all values can be read. */
const ABOUT_SEVERAL: ReadonlySet<string> = new Set([
  ...['$id', 'required', 'dependentRequired', 'dependentSchemas', 'minProperties', 'unevaluatedProperties'],
  ...['anyOf', 'oneOf', 'not', 'if', 'then', 'else'],
])
/** Maps whose keys are names. */
const NAMED: ReadonlySet<string> = new Set(['properties', 'patternProperties', '$defs', 'definitions'])
/** Values, and no schemas. */
const VALUES: ReadonlySet<string> = new Set(['default', 'const', 'enum', 'examples'])

const looseSchemas = new WeakMap<object, object>()

function looseOf(schema: object): object {
  let known = looseSchemas.get(schema)
  if (known === undefined) looseSchemas.set(schema, (known = loose(schema, false) as object))
  return known
}

function loose(schema: unknown, hasNames: boolean): unknown {
  if (Array.isArray(schema)) return schema.map(each => loose(each, false))
  if (typeof schema !== 'object' || schema === null) return schema
  const entries = Object.entries(schema).filter(([word]) => hasNames || !ABOUT_SEVERAL.has(word))
  return Object.fromEntries(
    entries.map(([word, inner]) => {
      if (hasNames) return [word, loose(inner, false)]
      return [word, VALUES.has(word) ? inner : loose(inner, NAMED.has(word))]
    }),
  )
}

interface Checked {
  readonly plugin: AnyPlugin
  /** As `create` gets them. */
  readonly settings: unknown
  readonly place: StepPlace
}

/** Asks the plugin what is wrong with the settings of a step, and reports that at its places. */
export function askPlugin(source: Source, address: string, { plugin, settings, place }: Checked): void {
  const broken = (why: string) =>
    source.report(`${address}/use`, `the plugin "${plugin.name}" ${why}`, { rule: 'broken-plugin' })
  let found: unknown
  try {
    found = plugin.check?.(freeze(settings) as never, place) ?? []
  } catch (error) {
    broken(`failed when asked what is wrong with its settings: ${mistakeText(error, source.file)}`)
    return
  }
  if (!Array.isArray(found) || !found.every(isProblem)) {
    broken('did not answer with a list of { at, message } when asked what is wrong with its settings')
    return
  }
  for (const { at, message, level } of found) {
    const where = `${address}/with${at}`
    const said = quotesReference(source, where, message, valueAt(settings, at)) ?? message
    if (level === 'warning') source.warn(where, said, { rule: 'no-effect' })
    else source.report(where, said)
  }
}

function isProblem(value: unknown): value is SettingsProblem {
  const { at, message, level = 'error' } = Object(value) as Partial<Record<keyof SettingsProblem, unknown>>
  if (level !== 'error' && level !== 'warning') return false
  return typeof at === 'string' && /^(\/|$)/.test(at) && typeof message === 'string' && message !== ''
}

/** Parts of what a reference stands for are not told; the whole of it the source conceals by itself. */
const MIN_PART = 4

/** Another sentence for one that quotes a part of what `${…}` stands for; null for all others. */
function quotesReference(source: Source, where: string, message: string, value: unknown): string | null {
  if (!source.substituted(where)) return null
  const text = String(value)
  const rest = message.replaceAll(text, '')
  for (let i = 0; i + MIN_PART <= text.length; i++) {
    if (!rest.includes(text.slice(i, i + MIN_PART))) continue
    return `${source.show(where, value)} stands for a value that cannot be taken; write it out here to see why`
  }
  return null
}

function valueAt(settings: unknown, at: string): unknown {
  const path = at.split('/').slice(1).map(unescapePointer)
  return path.reduce<unknown>((value, key) => (Object(value) as Record<string, unknown>)[key], settings)
}
