/** What is wrong with the settings schema of a plugin: a mistake of who wrote the plugin, and not of who wrote the policy. */
import { validateOnce } from './ajv.ts'
import { LISTS, MAPS, ONES } from './json-schema.ts'
import { inSentences } from './shape-errors.ts'
import { pointer } from './source.ts'

type Schema = Readonly<Record<string, unknown>>

const known = new WeakMap<object, readonly string[]>()

/** A sentence for each mistake, without a full stop, that begins with its place as a JSON pointer; none for a good schema. */
export function mistakesInSchema(schema: object): readonly string[] {
  let found = known.get(schema)
  if (found === undefined) known.set(schema, (found = find(schema as Schema)))
  return found
}

function find(root: Schema): string[] {
  return [...subschemas(root, '')].flatMap(([at, schema]) => badDefault(root, at, schema))
}

/** A schema with all that are in it, each with its place. */
function* subschemas(schema: unknown, at: string): Generator<readonly [at: string, schema: Schema]> {
  if (typeof schema !== 'object' || schema === null || Array.isArray(schema)) return
  yield [at, schema as Schema]
  for (const [keyword, value] of Object.entries(schema)) {
    const inner = at + pointer(keyword)
    if (ONES.has(keyword)) yield* subschemas(value, inner)
    else if (MAPS.has(keyword) || LISTS.has(keyword)) {
      for (const [name, each] of Object.entries(Object(value))) yield* subschemas(each, inner + pointer(name))
    }
  }
}

/** A default is filled in where the policy says nothing: it has to fit its own schema. */
function badDefault(root: Schema, at: string, schema: Schema): string[] {
  if (!Object.hasOwn(schema, 'default')) return []
  const { $defs, definitions } = root
  const alone = {
    ...($defs ? { $defs } : {}),
    ...(definitions ? { definitions } : {}),
    properties: { default: schema },
  }
  const errors = validateOnce({ type: 'object', ...alone }, { default: schema['default'] })
  return inSentences(errors, at).map(({ message }) => `${at}: ${message}`)
}
