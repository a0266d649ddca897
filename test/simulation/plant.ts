/**
 * Changes the product's source while the source is loaded: a planted bug, and a number that would only make the simulation slow. Call
 * this before any import of the product.
 */
import { registerHooks } from 'node:module'
import { fileURLToPath } from 'node:url'
import { PLANTED, PLANTED_IN_POSTGRES } from './planted.ts'

export interface Change {
  /** The path from the repository's root. */
  readonly file: string
  readonly old: string
  readonly new: string
}

const ROOT = new URL('../../', import.meta.url)

/** Every start allocates memory for this many buckets. A run uses a few buckets and has about three starts. */
const FEWER_BUCKETS: Change = { file: 'src/state/buckets.ts', old: 'MAX_NAMES = 65_536', new: 'MAX_NAMES = 64' }

/** @param name of a planted bug, see planted.ts. Throws for an unknown name. */
export function installChanges(name: string | undefined): void {
  const changes = [FEWER_BUCKETS]
  if (name) {
    const planted = [...PLANTED, ...PLANTED_IN_POSTGRES].find(each => each.name === name)
    if (!planted) throw new Error(`The planted bug "${name}" does not exist; see planted.ts.`)
    changes.push(...planted.changes)
  }
  changeWhileLoading(changes)
}

/** Changes the source of later imports. */
export function changeWhileLoading(changes: readonly Change[]): void {
  registerHooks({
    load(url, context, nextLoad) {
      const loaded = nextLoad(url, context)
      const here = changes.filter(({ file }) => new URL(file, ROOT).href === url)
      if (here.length === 0) return loaded
      return { ...loaded, source: here.reduce(apply, String(loaded.source)) }
    },
  })
}

/** Throws if the old text is missing or occurs more than once: then the planted bug must be adapted to the source. */
export function apply(source: string, change: Change): string {
  const parts = source.split(change.old)
  if (parts.length === 2) return parts.join(change.new)
  throw new Error(
    `${fileURLToPath(new URL(change.file, ROOT))} must contain this exactly once, but does ${parts.length - 1} times:\n${change.old}`,
  )
}
