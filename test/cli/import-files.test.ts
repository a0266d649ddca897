/** Import of real LiteLLM configurations. LITELLM_DIR names their folder, which is outside this repository. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { loadPriceCatalog } from '../../src/catalog/price-catalog.ts'
import { problemsOf } from '../../src/cli/import.ts'
import { type ImportResult, importLitellm } from '../../src/cli/import-litellm/index.ts'
import { filesOf, summary } from '../../src/cli/import-litellm/render.ts'
import { describeWith, LITELLM, WITHOUT_LITELLM } from '../helpers/missing.ts'

const catalog = await loadPriceCatalog(null, [], new Date('2026-11-28'))
const names = LITELLM === '' ? [] : readdirSync(LITELLM).filter(name => /\.ya?ml$/.test(name))

/** The rows of a file, and the rows without a model or route, each with the reason. */
interface Result {
  readonly rows: number
  readonly without: readonly string[]
  readonly lines: number
  readonly problems: readonly string[]
}

function importFile(name: string): { readonly imported: ImportResult; readonly rows: { model_name: string }[] } {
  const text = readFileSync(join(LITELLM, name), 'utf8')
  const { model_list } = parse(text, { uniqueKeys: false, merge: true }) as { model_list: { model_name: string }[] }
  return { imported: importLitellm(text, name, { catalog, list: null, unpriced: 'disable' }), rows: model_list }
}

/** The rows without an enabled model and without a route. */
function withoutOf({ gateway, remarks }: ImportResult, rows: readonly { model_name: string }[]): string[] {
  const models = gateway['models'] as Record<string, { enabled?: boolean }>
  return rows.flatMap(({ model_name: name }, index) => {
    const id = name.replace(/^os\.environ\//, '')
    const row = `model_list[${index}]`
    const of = remarks.filter(({ path }) => path === row || path.startsWith(`${row}.`))
    const isRouted = of.some(({ why }) => why.startsWith('a model is on a raw route'))
    const isLost = of.some(({ kind, path }) => kind === 'lost' && /\]$|\.litellm_params\.model$|\.mode$/.test(path))
    if (isRouted || (!isLost && models[id] !== undefined && models[id].enabled !== false)) return []
    const [reason] = of.filter(({ kind }) => kind === 'lost' || kind === 'yours')
    return [`${row} ${name}: ${reason?.why ?? 'its model is off'}`]
  })
}

async function resultOf(name: string): Promise<Result> {
  const { imported, rows } = importFile(name)
  const problems = await problemsOf(filesOf(imported, name, imported.commands), imported)
  return {
    rows: rows.length,
    without: withoutOf(imported, rows),
    lines: summary(imported.remarks, name, '--verbose').trimEnd().split('\n').length,
    problems: problems.map(problem => `${name}: ${problem}`),
  }
}

describeWith(WITHOUT_LITELLM, 'real configurations', () => {
  test('all pass the check, and at least four fifths of their models serve', async () => {
    const results = await Promise.all(names.map(async name => [name, await resultOf(name)] as const))
    const rows = results.reduce((sum, [, result]) => sum + result.rows, 0)
    const without = results.flatMap(([name, result]) => result.without.map(each => `${name} ${each}`))
    console.log(`${rows - without.length} of ${rows} rows of ${names.length} files serve.\n${without.join('\n')}`)
    console.table(
      Object.fromEntries(
        results.map(([name, { rows: all, without: off, lines }]) => [
          name,
          { models: all, serve: all - off.length, 'lines of remarks': lines },
        ]),
      ),
    )
    expect(results.flatMap(([, { problems }]) => problems)).toEqual([])
    expect(without.length).toBeLessThanOrEqual(rows / 5)
    for (const [name, { lines }] of results) expect(lines, name).toBeLessThanOrEqual(12)
  })
})
