/** What is said about an import: each remark has its line in the source, what it is about, and what to do instead. */
import type { Fields } from './read.ts'

/**
 * `lost`: could not be carried. `changed`: carried, but it means something else here, or a value had to be assumed.
 * `yours`: something that only the operator can do.
 */
export type RemarkKind = 'lost' | 'changed' | 'yours'

export interface Remark {
  readonly kind: RemarkKind
  readonly line: number
  readonly path: string
  /** Why, in a sentence. Never holds a secret. */
  readonly why: string
  /** What to do instead. */
  readonly instead: string | null
}

/** The list, in the order in which things were found. */
export class Remarks {
  readonly all: Remark[] = []

  add(kind: RemarkKind, at: { readonly line: number; readonly path: string }, why: string, instead?: string): void {
    const known = this.all.some(each => each.path === at.path && each.why === why)
    if (!known) this.all.push({ kind, line: at.line, path: at.path, why, instead: instead ?? null })
  }

  /** What nobody has asked for. @param known why and what instead, by the key; a key that is not there is not known */
  rest(entries: ReturnType<Fields['rest']>, known: Readonly<Record<string, Known>>): void {
    for (const [key, value, wanted] of entries) {
      const row = Object.hasOwn(known, key) ? known[key]! : wanted === null ? patternOf(key) : null
      if (row === null && wanted !== null) {
        this.add('lost', value, `${key} has to be a ${wanted}`, 'write it so, and import again')
      } else if (row === null) {
        this.add('lost', value, `the importer does not know "${key}"`, 'see whether it matters to you')
      } else this.add(row[2] ?? 'lost', value, row[0], row[1])
    }
  }
}

/** Why, what instead, and the kind when it is not `lost`. */
export type Known = readonly [why: string, instead?: string | undefined, kind?: RemarkKind]

function patternOf(key: string): Known | null {
  if (key.startsWith('supports_')) {
    return ['it describes the model, and here nothing depends on it: what clients send is passed', undefined, 'changed']
  }
  if (/cost/.test(key)) {
    return [
      'a price of this kind cannot be said in the catalog',
      'make the price of the model so high that it covers this',
    ]
  }
  return null
}
