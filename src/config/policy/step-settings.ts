/** Checks the settings of a step with the plugin's schema and with the plugin's own `check`. */
import { type AnyPlugin, mistakeText, type SettingsProblem, type StepPlace, shownFile } from '#contract'
import { checkShape, unescapePointer } from '../yaml/ajv.ts'
import { freeze } from '../yaml/freeze.ts'
import type { Source } from '../yaml/source.ts'
import { mistakesInSchema } from './schema-mistakes.ts'

interface StepPlugin {
  readonly plugin: AnyPlugin
  readonly builtIn: boolean
  /** The plugin's own file; null if it has none. */
  readonly file: string | null
}

/**
 * Checks `with` against the plugin's schema and returns it with units parsed and defaults filled in. If a value could not be
 * read, the others are checked separately, and missing keys are not reported.
 */
export function checkSettings(source: Source, address: string, given: unknown, stepPlugin: StepPlugin): unknown {
  const { plugin, builtIn } = stepPlugin
  const at = `${address}/with`
  // A test checks the built-in plugins' schemas.
  const mistakes = builtIn ? [] : mistakesInSchema(plugin.settings)
  for (const mistake of mistakes) {
    const message = `the settings schema of ${nameOf(stepPlugin, source.file)} is wrong: ${mistake}`
    source.report(`${address}/use`, message, { rule: 'broken-plugin' })
  }
  if (mistakes.length > 0) return given
  if (source.sound(at)) return checkShape(source, at, given, plugin.settings)
  const remains = source.reported(at) ? null : source.remains(at, given as object)
  try {
    if (remains !== null) checkShape(source, at, remains, looseOf(plugin.settings))
  } catch {
    // The schema cannot be compiled without the removed keywords.
  }
  return given
}

/** `the plugin "mine" (plugins/mine.ts)` */
function nameOf({ plugin, file }: StepPlugin, policyFile: string): string {
  return `the plugin "${plugin.name}"${file === null ? '' : ` (${shownFile(file, policyFile)})`}`
}

/** Keywords about several values, which may be satisfied when all values can be read. */
const ABOUT_SEVERAL: ReadonlySet<string> = new Set([
  ...['$id', 'required', 'dependentRequired', 'dependentSchemas', 'minProperties', 'unevaluatedProperties'],
  ...['anyOf', 'oneOf', 'not', 'if', 'then', 'else'],
])
/** Keywords whose value is a map by names. */
const NAMED: ReadonlySet<string> = new Set(['properties', 'patternProperties', '$defs', 'definitions'])
/** Keywords whose value is not a schema. */
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

interface PluginCheck {
  readonly plugin: AnyPlugin
  /** In the form that `create` gets. */
  readonly settings: unknown
  readonly place: StepPlace
}

/** Calls the plugin's `check` with the settings of a step, and reports its problems. */
export function checkWithPlugin(source: Source, address: string, { plugin, settings, place }: PluginCheck): void {
  const broken = (reason: string) =>
    source.report(`${address}/use`, `the plugin "${plugin.name}" ${reason}`, { rule: 'broken-plugin' })
  let found: unknown
  try {
    found = plugin.check?.(freeze(settings) as never, place) ?? []
  } catch (error) {
    broken(`failed in "check": ${mistakeText(error, source.file)}`)
    return
  }
  if (!Array.isArray(found) || !found.every(isProblem)) {
    broken('did not return a list of { at, message } from "check"')
    return
  }
  for (const { at, message, level } of found) {
    const where = `${address}/with${at}`
    const safe = quotesReference(source, where, message, valueAt(settings, at)) ?? message
    if (level === 'warning') source.warn(where, safe, { rule: 'no-effect' })
    else source.report(where, safe)
  }
}

function isProblem(value: unknown): value is SettingsProblem {
  const { at, message, level = 'error' } = Object(value) as Partial<Record<keyof SettingsProblem, unknown>>
  if (level !== 'error' && level !== 'warning') return false
  return typeof at === 'string' && /^(\/|$)/.test(at) && typeof message === 'string' && message !== ''
}

/** Parts of a secret of this length are not shown. `Source` conceals the whole secret itself. */
const MIN_PART = 4

/** A replacement for a message that quotes a part of the value of `${…}`; null for other messages. */
function quotesReference(source: Source, where: string, message: string, value: unknown): string | null {
  if (!source.substituted(where)) return null
  const text = String(value)
  const rest = message.replaceAll(text, '')
  for (let i = 0; i + MIN_PART <= text.length; i++) {
    if (!rest.includes(text.slice(i, i + MIN_PART))) continue
    return `${source.show(where, value)} has a value that is not allowed; write the value here to see why`
  }
  return null
}

function valueAt(settings: unknown, at: string): unknown {
  const path = at.split('/').slice(1).map(unescapePointer)
  return path.reduce<unknown>((value, key) => (Object(value) as Record<string, unknown>)[key], settings)
}
