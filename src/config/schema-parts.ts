/** The kinds of values that the schemas of gateway.yaml and policies are made of. */
import { type UnitName, unit } from '#contract'

export const text = (description: string, more: object = {}) => ({ type: 'string', minLength: 1, description, ...more })
export const flag = (description: string, value: boolean) => ({ type: 'boolean', description, default: value })
export const whole = (description: string, minimum: number, maximum: number, more: object = {}) => ({
  type: 'integer',
  minimum,
  maximum,
  description,
  ...more,
})
export const measured = (name: UnitName, from: string, to: string) => (description: string, value?: string) => ({
  ...unit(name),
  within: { unit: name, from, to },
  description: value === undefined ? description : `${description} Default: ${value}.`,
  ...(value === undefined ? {} : { default: value }),
})
export const span = measured('duration', '1ms', '24h')
export const tokens = measured('tokens', '1', '100M')
export const map = (description: string, properties: object, more: object = {}) => ({
  type: 'object',
  additionalProperties: false,
  description,
  properties,
  ...more,
})

export const NAME = {
  pattern: '^[A-Za-z][A-Za-z0-9_-]{0,39}$',
  sentence: 'must be up to 40 letters, digits, dashes and underscores',
}
/** A port alone is a number to YAML. */
export const ADDRESS = {
  sentence: 'must be an address with a port',
  instead: { of: '^\\d{1,5}$', write: '127.0.0.1:VALUE' },
}
