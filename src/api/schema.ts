/**
 * The schemas of the account API. Each is written once: it is the JSON Schema for ajv and the OpenAPI document, and gives the
 * TypeScript type of its values.
 *
 * TypeBox does not replace this: its import takes 58 to 140 ms and 19 MiB at the start. It writes enumerations and "or null" as
 * `anyOf`, so most parts would be written by hand. `json-schema-to-ts` reads literal types only. For the views alone, it adds 0.9
 * to 1.8 s to a type check.
 */

declare const FITS: unique symbol

/** JSON Schema 2020-12 for values of the type `Value`. */
export interface Schema<Value = unknown> extends Readonly<Record<string, unknown>> {
  /** For the type checker only. */
  readonly [FITS]?: Value
}

/** The type of the values of a schema: the type that it carries, else from its `enum`, `items` and `type`. */
export type Fits<S> = typeof FITS extends keyof S
  ? S extends Schema<infer Value>
    ? Value
    : never
  : S extends { readonly enum: readonly (infer Value)[] }
    ? Value
    : S extends { readonly type: 'array'; readonly items: infer Item }
      ? readonly Fits<Item>[]
      : S extends { readonly type: infer Type extends keyof Plain }
        ? Plain[Type]
        : unknown

interface Plain {
  readonly string: string
  readonly number: number
  readonly integer: number
  readonly boolean: boolean
}

export type Properties = Readonly<Record<string, Schema>>

/** The type of an object with these properties. One with a default is never missing. */
export type Shape<P> = Flat<
  { readonly [K in keyof P as K extends OptionalKey<P, K> ? never : Plainly<K>]: Fits<P[K]> } & {
    readonly [K in keyof P as K extends OptionalKey<P, K> ? Plainly<K> : never]?: Fits<P[K]>
  }
>
type OptionalKey<P, K extends keyof P> = P[K] extends { readonly default: unknown } ? never : `${string}?`
type Plainly<K> = K extends `${infer Name}?` ? Name : K
type Flat<T> = { [K in keyof T]: T[K] }

/**
 * An object with these properties and no others. Names that end in `?` may be left out:
 * `shape({ name: NAME, 'models?': MODELS })`.
 */
export function shape<const P extends Properties>(properties: P): Schema<Shape<P>> {
  const names = Object.keys(properties)
  return {
    type: 'object',
    additionalProperties: false,
    properties: Object.fromEntries(names.map(name => [name.replace(/\?$/, ''), properties[name]])),
    required: names.filter(name => !name.endsWith('?')),
  }
}

/** The schema, or null. */
export function maybe<const S extends Schema>(schema: S): Schema<Fits<S> | null> {
  if ('$ref' in schema) return { anyOf: [schema, { type: 'null' }] }
  const { type, enum: values } = schema as { type?: unknown; enum?: readonly unknown[] }
  return { ...(schema as Schema<Fits<S>>), type: [type, 'null'], ...(values ? { enum: [...values, null] } : {}) }
}
