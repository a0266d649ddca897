/** The remarks of an import: each has its line in the source, its reason, and an alternative. */
import type { Fields, TextValue } from './read.ts'
import { hasReference } from './references.ts'
import { type Section, settingOf } from './settings.ts'

/**
 * `lost`: not carried. `yours`: something that only the operator can do. `changed`: carried, but it means something else
 * here, or a value is assumed. `unneeded`: not carried, and the gateway does without.
 */
export type RemarkKind = 'yours' | 'lost' | 'changed' | 'unneeded'

export interface Remark {
  readonly kind: RemarkKind
  readonly line: number
  readonly path: string
  /** The model or setting, where the path does not name it. */
  readonly what: string | null
  /** Why, in a sentence that is the same for all of its kind. Never holds a secret. */
  readonly why: string
  readonly instead: string | null
}

/** A place in the source. */
export interface Place {
  readonly line: number
  readonly path: string
}

/** The list, in the order in which things were found. */
export class Remarks {
  readonly all: Remark[] = []

  /** @param what the model or the value, so that `why` stays the same for all of its kind */
  add(kind: RemarkKind, at: Place, why: string, instead?: string | null, what?: string): void {
    const known = this.all.some(each => each.path === at.path && each.why === why && each.what === (what ?? null))
    if (!known) this.all.push({ kind, line: at.line, path: at.path, what: what ?? null, why, instead: instead ?? null })
  }

  /** A value that is not the number that it should be. */
  wrongNumber(at: TextValue, why: string): void {
    const isVariable = hasReference(at)
    if (isVariable) this.add('yours', at, 'a number is a variable', 'write the number into the file, and import again')
    else this.add('lost', at, why)
  }

  /** The settings that no code has read, by the table of settings. */
  rest(fields: Fields, section: Section): void {
    for (const [key, value, wanted] of fields.rest()) {
      // An empty list or map sets nothing.
      if ((value.kind === 'list' && value.items.length === 0) || (value.kind === 'map' && value.keys().length === 0))
        continue
      const row = settingOf(section, key)
      if (wanted !== null) this.add('lost', value, `it has to be a ${wanted}`, 'write it so, and import again', key)
      else if (row === undefined) this.add('lost', value, 'the importer does not know the setting', null, key)
      else if (row.fate === 'carried')
        this.add('lost', value, 'it is not read at this place', row.instead ?? `elsewhere: ${row.text}`, key)
      else this.add(row.fate, value, row.text, row.instead)
    }
  }
}
