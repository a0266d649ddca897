/** A text with a few places to fill in. Only what the operator has written or chosen goes there, never words of a client. */

const PLACES = ['date', 'account.plan', 'model'] as const
export type Place = (typeof PLACES)[number]

const PLACE = `\\{\\{ ?(?:${PLACES.join('|').replaceAll('.', '\\.')}) ?\\}\\}`

/** A schema's pattern for such a text: what begins with two braces is one of the places. */
export const TEXT = `^[^{]*(?:(?:${PLACE}|\\{(?!\\{))[^{]*)*$`

/** The places that a text names. */
export function placesIn(text: string): readonly Place[] {
  return [...text.matchAll(new RegExp(PLACE, 'g'))].map(([found]) => nameOf(found))
}

/** Taken apart once; filled in for each request. What is filled in is not looked at again. */
export function compileText(text: string): (values: Readonly<Record<Place, string>>) => string {
  const parts = text.split(new RegExp(PLACE))
  const places = placesIn(text)
  return values => parts.reduce((whole, part, i) => whole + values[places[i - 1]!] + part)
}

function nameOf(place: string): Place {
  return place.slice(2, -2).trim() as Place
}
