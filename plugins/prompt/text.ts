/** A text with placeholders. Their values come from the operator, never from a client. */

const PLACES = ['date', 'account.plan', 'model'] as const
export type Place = (typeof PLACES)[number]

const PLACE = `\\{\\{ ?(?:${PLACES.join('|').replaceAll('.', '\\.')}) ?\\}\\}`

/** The pattern of such a text in a schema: two braces begin a placeholder. */
export const TEXT = `^[^{]*(?:(?:${PLACE}|\\{(?!\\{))[^{]*)*$`

/** The placeholders of a text. */
export function placesIn(text: string): readonly Place[] {
  return [...text.matchAll(new RegExp(PLACE, 'g'))].map(([found]) => nameOf(found))
}

/** Parses the text once, and returns a function that fills it in for each request. Values are not parsed again. */
export function compileText(text: string): (values: Readonly<Record<Place, string>>) => string {
  const parts = text.split(new RegExp(PLACE))
  const places = placesIn(text)
  return values => parts.reduce((whole, part, i) => whole + values[places[i - 1]!] + part)
}

function nameOf(place: string): Place {
  return place.slice(2, -2).trim() as Place
}
