/** The parts of the schemas of views. */
import { type Properties, type Schema, type Shape, shape } from './schema.ts'

export function view<const P extends Properties>(description: string, properties: P): Schema<Shape<P>> {
  return { description, ...shape(properties) }
}

/** The same schema with a description. */
export function says<Value>(schema: Schema<Value>, description: string): Schema<Value> {
  return { ...schema, description }
}

/** A reference to a view by its name. */
export interface Ref<Name extends string> {
  readonly $ref: Name
}

export function ref<const Name extends string>(name: Name): Schema<Ref<Name>> {
  return { $ref: `#/components/schemas/${name}` }
}

export function list<Value>(items: Schema<Value>): Schema<readonly Value[]> {
  return { type: 'array', items }
}

export function oneOf<const Value extends string>(...values: readonly Value[]): Schema<Value> {
  return { type: 'string', enum: values }
}

export const text: Schema<string> = { type: 'string' }
export const flag: Schema<boolean> = { type: 'boolean' }
export const count: Schema<number> = { type: 'integer', minimum: 0 }
export const ms: Schema<number> = { type: 'number' }
export const time: Schema<string> = { type: 'string', format: 'date-time' }
export const money: Schema<string> = {
  type: 'string',
  pattern: '^-?\\d+\\.\\d{9}$',
  description: 'Dollars with 9 decimals.',
}
