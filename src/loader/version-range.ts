/** Ranges of versions as package.json files write them (`^1.2.0`, `>=1 <3`, `1.x || 2.x`), as far as whole releases go. */

type Version = readonly [major: number, minor: number, patch: number]

/** From the first version on, up to the second one without it. */
type Span = readonly [from: Version, to: Version]

const NONE: Version = [0, 0, 0]
const ANY: Version = [Number.POSITIVE_INFINITY, 0, 0]
const COMPARATOR = /^(>=|<=|>|<|=|\^|~)?v?(\d+|[xX*])(?:\.(\d+|[xX*]))?(?:\.(\d+|[xX*]))?(?:[-+][0-9A-Za-z.+-]+)?$/

/** Whether a version is in a range; null when the text is no such range (a tag, an address). */
export function isInRange(version: string, range: string): boolean | null {
  const [is] = spanOf(version) ?? []
  const alternatives = range.split('||').map(spansOf)
  if (!is || alternatives.some(spans => spans === null)) return null
  return alternatives.some(spans => spans!.every(([from, to]) => !isBefore(is, from) && isBefore(is, to)))
}

/** All of them must hold; null when one is none. */
function spansOf(text: string): readonly Span[] | null {
  const words = text
    .trim()
    .replace(/^(\S+)\s+-\s+(\S+)$/, '>=$1 <=$2')
    .replace(/([<>=^~])\s+/g, '$1')
    .split(/\s+/)
  const spans = words.map(word => (word === '' ? ([NONE, ANY] as const) : spanOf(word)))
  return spans.every(span => span !== null) ? spans : null
}

function spanOf(word: string): Span | null {
  const [, operator = '=', ...parts] = COMPARATOR.exec(word) ?? []
  if (parts.length === 0) return null
  const numbers = parts.map(part => (part === undefined || /[xX*]/.test(part) ? null : Number(part)))
  const [major, minor, patch] = numbers
  const least: Version = [major ?? 0, minor ?? 0, patch ?? 0]
  // What the word alone stands for: `1.2` is every 1.2.x.
  const next: Version =
    major == null
      ? ANY
      : minor == null
        ? [major + 1, 0, 0]
        : patch == null
          ? [major, minor + 1, 0]
          : [major, minor, patch + 1]
  switch (operator) {
    case '>=':
      return [least, ANY]
    case '>':
      return [next, ANY]
    case '<':
      return [NONE, least]
    case '<=':
      return [NONE, next]
    case '~':
      return [least, major == null || minor == null ? next : [major, minor + 1, 0]]
    case '^':
      return [least, afterCaret(major, minor, next)]
    default:
      return [least, next]
  }
}

/** What changes nothing in front: `^1.2` goes up to 2, `^0.2.1` up to 0.3, `^0.0.3` up to 0.0.4. */
function afterCaret(major: number | null | undefined, minor: number | null | undefined, next: Version): Version {
  if (major == null || major > 0) return major == null ? ANY : [major + 1, 0, 0]
  return minor ? [0, minor + 1, 0] : next
}

function isBefore(one: Version, other: Version): boolean {
  const at = one.findIndex((part, i) => part !== other[i])
  return at >= 0 && one[at]! < other[at]!
}
