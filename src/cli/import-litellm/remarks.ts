/** The remarks of an import, each with its line, reason and alternative. */
import type { Fields, TextValue } from './read.ts'
import { hasReference } from './references.ts'
import { type Section, settingOf } from './settings.ts'

/**
 * `lost`: not converted. `yours`: the operator must act. `changed`: converted with another meaning, or with an assumed value.
 * `unneeded`: not converted, and not needed.
 */
export type RemarkKind = 'yours' | 'lost' | 'changed' | 'unneeded'

export interface Remark {
  readonly kind: RemarkKind
  readonly line: number
  readonly path: string
  /** The model or setting, if it is not in the path. */
  readonly what: string | null
  /** The reason, in the same sentence for all remarks of a kind. It never contains a secret. */
  readonly why: string
  readonly instead: string | null
}

/** A place in the source. */
export interface Place {
  readonly line: number
  readonly path: string
}

/** Collects remarks in order. */
export class Remarks {
  readonly all: Remark[] = []

  /** @param what the model or the value, so that `why` stays the same for all of its kind */
  add(kind: RemarkKind, at: Place, why: string, instead?: string | null, what?: string): void {
    const known = this.all.some(each => each.path === at.path && each.why === why && each.what === (what ?? null))
    if (!known) this.all.push({ kind, line: at.line, path: at.path, what: what ?? null, why, instead: instead ?? null })
  }

  /** Adds a remark for a value that is not a valid number. */
  wrongNumber(at: TextValue, why: string): void {
    const isVariable = hasReference(at)
    if (isVariable) this.add('yours', at, 'a number is a variable', 'write the number in the file and import again')
    else this.add('lost', at, why)
  }

  /** Adds remarks for the settings that no code has read, from the table of settings. */
  rest(fields: Fields, section: Section): void {
    for (const [key, value, wanted] of fields.rest()) {
      // An empty list or map has no effect.
      if ((value.kind === 'list' && value.items.length === 0) || (value.kind === 'map' && value.keys().length === 0))
        continue
      const row = settingOf(section, key)
      if (wanted !== null) this.add('lost', value, `it must be a ${wanted}`, 'correct it and import again', key)
      else if (row === undefined) this.add('lost', value, 'the setting is unknown to the importer', null, key)
      else if (row.fate === 'converted')
        this.add('lost', value, 'it has no effect at this place', row.instead ?? `elsewhere: ${row.text}`, key)
      else this.add(row.fate, value, row.text, row.instead)
    }
  }
}
