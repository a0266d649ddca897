/** Functions that adjust parameters for providers that accept fewer values. Profiles refer to them. */
import { refuse } from '#contract'
import { type Fields, isFields } from '../translate/value.ts'

/** Returns the value to send, or undefined to leave it out. Calls `report` if the value was changed. */
export type Fit = (value: unknown, report: () => void) => unknown

/** Limits a number to a range. */
export function within(least: number, most: number): Fit {
  return (value, report) => {
    if (typeof value !== 'number' || (value >= least && value <= most)) return value
    report()
    return Math.min(Math.max(value, least), most)
  }
}

/** Leaves out a text that is not one of these words. */
export function oneOf(...words: readonly string[]): Fit {
  return value => (typeof value !== 'string' || words.includes(value) ? value : undefined)
}

/** Leaves out a text that does not match. */
export function matching(form: RegExp): Fit {
  return value => (typeof value !== 'string' || form.test(value) ? value : undefined)
}

export const asList: Fit = value => (typeof value === 'string' ? [value] : value)

/** Refuses several stop texts: without one of them the answer would end elsewhere. */
export const onlyStop: Fit = value => {
  const texts = asList(value, () => {})
  if (!Array.isArray(texts) || texts.length <= 1) return texts
  const message = "'stop' has several texts, but this model's provider supports only one."
  throw refuse('unsupported_parameter', { message, param: 'stop' })
}

/** Flattens the user's location in `web_search_options`, where OpenAI nests it in another object. */
export const flatLocation: Fit = value => {
  const location = isFields(value) ? value['user_location'] : undefined
  if (!isFields(location)) return value
  const { type: _, approximate, ...more } = location
  const { timezone: __, ...place } = isFields(approximate) ? approximate : ({} as Fields)
  return { ...(value as Fields), user_location: { ...more, ...place } }
}
