/** What the schemas of the views are made of. */
import type { Schema } from './schema.ts'

export type Properties = Readonly<Record<string, Schema>>

/** Names that end in `?` may be left out. */
export function view(description: string, properties: Properties): Schema {
  return { description, ...shape(properties) }
}

export function shape(properties: Properties): Schema {
  const names = Object.keys(properties)
  return {
    type: 'object',
    additionalProperties: false,
    properties: Object.fromEntries(names.map(name => [name.replace(/\?$/, ''), properties[name]])),
    required: names.filter(name => !name.endsWith('?')),
  }
}

/** The same schema with a description. */
export function says(schema: Schema, description: string): Schema {
  return { ...schema, description }
}

export function maybe(schema: Schema): Schema {
  if ('$ref' in schema) return { anyOf: [schema, { type: 'null' }] }
  const { type, enum: values } = schema as { type: string; enum?: readonly unknown[] }
  return { ...schema, type: [type, 'null'], ...(values ? { enum: [...values, null] } : {}) }
}

export const ref = (name: string): Schema => ({ $ref: `#/components/schemas/${name}` })
export const list = (items: Schema): Schema => ({ type: 'array', items })
export const oneOf = (...values: readonly string[]): Schema => ({ type: 'string', enum: values })

export const text: Schema = { type: 'string' }
export const flag: Schema = { type: 'boolean' }
export const count: Schema = { type: 'integer', minimum: 0 }
export const time: Schema = { type: 'string', format: 'date-time' }
export const money: Schema = {
  type: 'string',
  pattern: '^-?\\d+\\.\\d{9}$',
  description: 'Dollars with 9 decimals.',
}
