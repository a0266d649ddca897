/** A valid configuration of parts that a test may replace, written to a temporary folder. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { expect } from 'vitest'
import type { Configuration } from '../../src/config/configuration.ts'
import { type LoadResult, loadConfiguration } from '../../src/config/load.ts'
import { formatProblem, type Problem, sentence } from '../../src/config/yaml/problem.ts'
import { registry } from './stand-ins.ts'

export { registry }

/** Marks the position of the expected problem in a text. It is removed before the text is loaded. */
export const HERE = '▸'

export const PARTS = {
  version: 'version: 1',
  providers: `providers:
  demo: { dialect: demo }
  far:
    dialect: openai
    base_url: https://api.example.com/v1
    api_key: \${FAR_KEY}`,
  models: `models:
  small:
    targets: [ { provider: demo, model: tiny } ]
    price: { per: 1M tokens, input: $0.10, output: $0.40 }
    context: 8Ki
    max_output: 1Ki`,
  routes: `routes:
  - { path: /v1/chat/completions, policy: standard }`,
}

export const STANDARD = `steps:
  - use: api-key
  - use: schema
  - use: credits
  - use: route
`
const CATALOG = `steps:
  - use: api-key
`

export const ENV = {
  FAR_KEY: 'far-key-0123456789',
  HOPS: '2',
  OPEN: 'true',
  EMPTY: '',
  HALF_ACCOUNT: '{"client_email":"a@b.example"}',
  KEYLESS_ACCOUNT: '{"client_email":"a@b.example","private_key":"none","token_uri":"https://a.example/t"}',
  CLEAR_ACCOUNT: '{"client_email":"a@b.example","private_key":"none","token_uri":"http://a.example/t"}',
  SHORT: 'abc',
  HOOK_URL: 'http://hooks.example.com/T0123456',
  ENTRA: 'eyJhbGci.eyJhdWQi.c2lnbmVk',
}

/** Replaces parts of the good gateway.yaml, or adds to it (`more`). */
export type Gateway = string | Partial<Record<keyof typeof PARTS | 'more', string>>

export interface Files {
  readonly gateway?: Gateway
  readonly standard?: string
  /** Further files by their path. */
  readonly [path: string]: unknown
}

export interface Workshop {
  readonly folder: string
  load(files: Files, env?: Record<string, string | undefined>): Promise<LoadResult>
  /** Loads a configuration; throws if it has problems. */
  good(files: Files, env?: Record<string, string | undefined>): Promise<Configuration>
  /** Loads a broken configuration; throws if it has no problems. File names are relative to the folder. */
  problems(files: Files, env?: Record<string, string | undefined>): Promise<readonly Problem[]>
  close(): void
}

/** Expects exactly one problem for each mark: at the mark, with these words. */
export async function expectProblems(
  workshop: Workshop,
  files: Files,
  says: string | readonly string[],
): Promise<readonly Problem[]> {
  const problems = await workshop.problems(files)
  const found = problems.map(each =>
    `${each.file}:${each.line}:${each.column}: ${sentence(each)}`.replaceAll(/\(\/[^)]*\/policies/g, '(policies'),
  )
  const marks = marksIn(files)
  expect(marks, 'each sentence has a mark').toHaveLength([says].flat().length)
  for (const [i, words] of [says].flat().entries()) {
    const matching = found.filter(line => line.startsWith(`${marks[i]}: `) && line.includes(words))
    expect(matching, `wanted ${marks[i]}: …${words}…\nfound\n${found.join('\n')}`).toHaveLength(1)
  }
  // A mistake may not cause further problems.
  expect(found, found.join('\n')).toHaveLength(marks.length)
  return problems
}

export function openWorkshop(): Workshop {
  const root = mkdtempSync(join(tmpdir(), 'tollgate-config-'))
  let count = 0
  const load = async (files: Files, env: Record<string, string | undefined> = ENV) => {
    const folder = join(root, String(++count))
    for (const [path, text] of Object.entries(textsOf(files))) {
      mkdirSync(dirname(join(folder, path)), { recursive: true })
      writeFileSync(join(folder, path), text.replaceAll(HERE, ''))
    }
    const result = await loadConfiguration(join(folder, 'gateway.yaml'), { env, registry: registry() })
    if ('configuration' in result) return result
    const problems = result.problems.map(problem => ({ ...problem, file: problem.file.replace(`${folder}/`, '') }))
    return { ...result, problems }
  }
  return {
    folder: root,
    load,
    async good(files, env) {
      const result = await load(files, env)
      if ('configuration' in result) return result.configuration
      throw new Error(result.problems.map(problem => formatProblem(problem)).join('\n'))
    },
    async problems(files, env) {
      const result = await load(files, env)
      if ('problems' in result) return result.problems
      throw new Error('the configuration was accepted')
    },
    close: () => rmSync(root, { recursive: true, force: true }),
  }
}

export function textsOf({ gateway = {}, standard = STANDARD, ...more }: Files): Record<string, string> {
  return {
    'gateway.yaml': typeof gateway === 'string' ? gateway : joined(gateway),
    'policies/standard.yaml': standard,
    'policies/catalog.yaml': CATALOG,
    ...(more as Record<string, string>),
  }
}

function joined({ more = '', ...parts }: Exclude<Gateway, string>): string {
  return `${[...Object.values({ ...PARTS, ...parts }), more].filter(part => part !== '').join('\n')}\n`
}

/** `file:line:column` of each mark in the files. */
function marksIn(files: Files): string[] {
  return Object.entries(textsOf(files)).flatMap(([file, text]) =>
    text
      .split(HERE)
      .slice(0, -1)
      .map((_, i, parts) => {
        const before = parts
          .slice(0, i + 1)
          .join('')
          .split('\n')
        return `${file}:${before.length}:${before.at(-1)!.length + 1}`
      }),
  )
}
