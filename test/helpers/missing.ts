/** Tests that need something that a machine or a run may lack. The end of the run lists why they are left out. */
import { describe, test } from 'vitest'

/** Where recorded traffic is; '' without it. It is outside this repository. */
export const CORPUS = process.env['CORPUS_DIR'] ?? ''
export const WITHOUT_CORPUS = CORPUS === '' ? 'CORPUS_DIR names no corpus' : null

/** Where the cases of public bug reports about providers are; '' without them. They are outside this repository. */
export const WILD = process.env['WILD_DIR'] ?? ''
export const WITHOUT_WILD = WILD === '' ? 'WILD_DIR names no cases' : null

/** Where configurations of LiteLLM are; '' without them. They are outside this repository. */
export const LITELLM = process.env['LITELLM_DIR'] ?? ''
export const WITHOUT_LITELLM = LITELLM === '' ? 'LITELLM_DIR names no configurations' : null

/** Where requests of clients and their judge are, and a Python that has the packages of its requirements.txt; '' without them. */
export const REQUESTS = process.env['REQUESTS_DIR'] ?? ''
export const PYTHON = process.env['REQUESTS_PYTHON'] ?? ''
export const WITHOUT_REQUESTS =
  REQUESTS === '' || PYTHON === '' ? 'REQUESTS_DIR and REQUESTS_PYTHON name no judge of requests' : null

const isRoot = process.getuid?.() === 0
export const AS_ROOT = isRoot ? 'root may write every file' : null
export const NOT_AS_ROOT = isRoot ? null : 'only root may give files away'
export const NOT_ON_LINUX = process.platform === 'linux' ? null : 'only Linux has /proc'

/**
 * A suite that needs something.
 * @param missing why it cannot run here: one skipped test says so. Null: it can run.
 */
export function describeWith(missing: string | null, name: string, tests: () => void): void {
  if (missing === null) describe(name, tests)
  else testWith(missing, name, tests)
}

/** A test that needs something. */
export function testWith(missing: string | null, name: string, run: () => unknown): void {
  test(name, missing === null ? run : context => context.skip(missing))
}
