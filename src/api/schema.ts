/**
 * The schemas of the account API, each written once: for ajv and the description of the API as JSON Schema, for TypeScript as
 * the type of the values that fit it. The parts in schema-parts.ts and inputs.ts put both together.
 *
 * Not TypeBox: it takes 58 to 140 ms and 19 MiB at the start, and says "or null" and enumerations as `anyOf`, so that all but
 * one of the parts would be written as here. Not `json-schema-to-ts`: it reads literals, so each part would state its result as
 * a literal type, which is longer than the type of the value, and the references would be resolved by hand all the same.
 */

declare const FITS: unique symbol

/** JSON Schema 2020-12. `Value` is what fits it. */
export interface Schema<Value = unknown> extends Readonly<Record<string, unknown>> {
  /** For the type checker only. */
  readonly [FITS]?: Value
}

/** The values that fit a schema. */
export type Fits<S> = S extends Schema<infer Value> ? Value : never

export type Properties = Readonly<Record<string, Schema>>

/** The type of an object with these properties. */
export type Shape<P> = Flat<
  { readonly [K in keyof P as K extends `${string}?` ? never : K]: Fits<P[K]> } & {
    readonly [K in keyof P as K extends `${infer Name}?` ? Name : never]?: Fits<P[K]>
  }
>
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

/** What fits the schema, or null. */
export function maybe<Value>(schema: Schema<Value>): Schema<Value | null> {
  if ('$ref' in schema) return { anyOf: [schema, { type: 'null' }] }
  const { type, enum: values } = schema as { type?: unknown; enum?: readonly unknown[] }
  return { ...schema, type: [type, 'null'], ...(values ? { enum: [...values, null] } : {}) }
}
