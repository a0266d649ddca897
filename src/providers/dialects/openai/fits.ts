/** Values of parameters for relatives that take fewer of them: the functions that profiles name. */
import { refuse } from '#contract'
import { type Fields, isFields } from '../translate/value.ts'

/** Returns the value to send, or undefined, which leaves it out; calls `report` where it has become another one. */
export type Fit = (value: unknown, report: () => void) => unknown

/** A number at the nearer end of its scale. */
export function within(least: number, most: number): Fit {
  return (value, report) => {
    if (typeof value !== 'number' || (value >= least && value <= most)) return value
    report()
    return Math.min(Math.max(value, least), most)
  }
}

/** One of its words, or none. */
export function oneOf(...words: readonly string[]): Fit {
  return value => (typeof value !== 'string' || words.includes(value) ? value : undefined)
}

/** A text of this form, or none. */
export function matching(form: RegExp): Fit {
  return value => (typeof value !== 'string' || form.test(value) ? value : undefined)
}

export const asList: Fit = value => (typeof value === 'string' ? [value] : value)

/** A second text would end the answer elsewhere, so it is not left out. */
export const onlyStop: Fit = value => {
  const texts = asList(value, () => {})
  if (!Array.isArray(texts) || texts.length <= 1) return texts
  const message = "'stop' has several texts, but this model's provider takes only one."
  throw refuse('unsupported_parameter', { message, param: 'stop' })
}

/** Where the user is, in `web_search_options`: its members where OpenAI has another object. */
export const flatLocation: Fit = value => {
  const location = isFields(value) ? value['user_location'] : undefined
  if (!isFields(location)) return value
  const { type: _, approximate, ...more } = location
  const { timezone: __, ...place } = isFields(approximate) ? approximate : ({} as Fields)
  return { ...(value as Fields), user_location: { ...more, ...place } }
}
