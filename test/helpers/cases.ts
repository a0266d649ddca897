/**
 * Cases as data: JSON files of cases, one runner for each kind of file. A new case costs no code. `npm test -- --update`
 * writes what the code returns now into the files, for a review as a diff.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import stringify from 'json-stringify-pretty-compact'
import { afterAll, describe, expect, test } from 'vitest'
import { visibleJson } from '../../src/contract/visible.ts'
import { allFiles, ROOT } from './repository.ts'

export type Json = Readonly<Record<string, unknown>>

/** One case: the inputs and the expected results. */
export interface Case extends Json {
  readonly name: string
  readonly expect: Json
}

interface CaseFile {
  /** Default inputs, and default members of `expect`, of every case. */
  readonly common: Json & { readonly expect?: Json }
  readonly cases: Case[]
}

/** Set by `--update` (test/vitest.config.ts). */
const isUpdate = process.env['TOLLGATE_UPDATE'] === '1'

/**
 * A test for each case of each file with this name below `folder`.
 * @param folder from the top of the repository: `test/providers/dialects`
 * @param name of the files: `request.json`
 * @param run returns the result of a case; `given` has the members of `common` and of the case
 */
export function testCases(folder: string, name: string, run: (given: Case, file: string) => Json): void {
  for (const { file, common, cases } of readFiles(folder, name)) {
    describe(file, () => {
      test('names each case once', () => {
        const names = cases.map(each => each.name)
        expect(names.filter((each, index) => names.indexOf(each) !== index)).toEqual([])
      })

      test.each(cases.map((each, index) => ({ each, index })))('$each.name', ({ each, index }) => {
        // JSON removes members that are undefined.
        const made = JSON.parse(JSON.stringify(run({ ...common, ...each }, file))) as Json
        if (isUpdate) cases[index] = { ...each, expect: withoutCommon(made, sharedBy(made, common)) }
        else expect(made).toEqual(withCommon(each.expect, sharedBy(each.expect, common)))
      })

      afterAll(() => {
        if (isUpdate) rewrite(file, { common, cases })
      })
    })
  }
}

/** The cases of the files with this name below `folder`, each with its defaults from `common`. */
export function readCases(folder: string, name: string): Case[] {
  return readFiles(folder, name).flatMap(({ common, cases }) => cases.map(each => ({ ...common, ...each })))
}

function readFiles(folder: string, name: string): (CaseFile & { readonly file: string })[] {
  const below = allFiles().filter(file => file.startsWith(`${folder}/`))
  // A subfolder such as inbound/ has a runner of its own.
  const others = below.filter(file => basename(file) === 'cases.test.ts' && dirname(file) !== folder).map(dirname)
  const files = below.filter(
    file => file.endsWith(`/cases/${name}`) && !others.some(other => file.startsWith(`${other}/`)),
  )
  if (files.length === 0) throw new Error(`${folder} has no files cases/${name}`)
  return files.map(file => ({ file, ...(JSON.parse(readFileSync(join(ROOT, file), 'utf8')) as CaseFile) }))
}

/** The members of `common` are for answers; a failure gets none of them. */
function sharedBy(expected: Json, { expect: shared = {} }: CaseFile['common']): Json {
  return 'failure' in expected ? {} : shared
}

/** A null removes a member of `common`. If `common` has a `body`, the body of a case has only the differences. */
function withCommon(expected: Json, common: Json): Json {
  const isTaken = (name: string) => expected[name] === null && (common[name] ?? null) !== null
  const all = Object.entries({ ...common, ...expected }).filter(([name]) => !isTaken(name))
  return Object.fromEntries(
    all.map(([name, value]) => [
      name,
      isMerged(name, common) ? withCommon(value as Json, common[name] as Json) : value,
    ]),
  )
}

function withoutCommon(made: Json, common: Json): Json {
  const missing = Object.keys(common).filter(name => made[name] === undefined)
  const own = Object.entries(made).filter(([name, value]) => !isDeepStrictEqual(value, common[name]))
  const short = own.map(([name, value]) => [
    name,
    isMerged(name, common) ? withoutCommon(value as Json, common[name] as Json) : value,
  ])
  return Object.fromEntries([...short, ...missing.map(name => [name, null])])
}

function isMerged(name: string, common: Json): boolean {
  return name === 'body' && common[name] !== undefined
}

/** Invisible characters are escaped, so that a diff shows them. */
function rewrite(file: string, content: CaseFile): void {
  writeFileSync(join(ROOT, file), `${visibleJson(stringify(content, { maxLength: 140 }))}\n`)
}
