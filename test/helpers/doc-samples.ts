/** The code samples of the pages, and whole configurations around samples that show a part of one. */
import { cpSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from 'yaml'
import { temporaryDirectory } from './gateway.ts'
import { allFiles, ROOT, type Sample, samplesOf } from './repository.ts'

/** Every page of the repository. */
export const PAGES = allFiles().filter(file => file.endsWith('.md'))

// The samples of these pages depend on each other: test/guide.system.test.ts, test/company.test.ts and test/migrate.system.test.ts run them in order.
const STORIES = /^(policies\/(GUIDE|COMPANY)|src\/config\/migrate\/FROM-[A-Z-]+)\.md$/

/** The samples of all other pages. */
export const SAMPLES: readonly Sample[] = PAGES.filter(file => !STORIES.test(file)).flatMap(samplesOf)

/** The samples in a language, of all pages or of one. */
export function inLanguage(language: string, file?: string): Sample[] {
  return SAMPLES.filter(sample => sample.language === language && (file === undefined || sample.file === file))
}

/** A directory with the policies of the checkout and the plugin of plugins/README.md. */
export async function configurationDirectory(): Promise<string> {
  const dir = await temporaryDirectory()
  cpSync(join(ROOT, 'policies'), join(dir, 'policies'), { recursive: true })
  mkdirSync(join(dir, 'plugins'))
  writeFileSync(join(dir, 'plugins/office-hours.ts'), inLanguage('ts', 'plugins/README.md')[0]!.text)
  return dir
}

/** A minimal configuration. Its route is public and unmetered if the sample has no step for keys or charges. */
export function minimal(policy = 'sample', steps = '') {
  return {
    version: 1,
    listen: '127.0.0.1:0',
    providers: { demo: { dialect: 'demo', pace: '0ms' } },
    models: { small: { targets: [{ provider: 'demo', model: 'demo-small' }], ...REST_OF_A_MODEL } },
    routes: [
      {
        path: '/v1/chat/completions',
        policy,
        ...(policy === 'sample' && !/use: (api-key|jwt)\b/.test(steps) ? { public: true } : {}),
        ...(policy === 'sample' && !/use: credits\b/.test(steps) ? { unmetered: true } : {}),
      },
    ],
  }
}

const REST_OF_A_MODEL = { price: { per: '1M tokens', input: '$1', output: '$2' }, context: '8Ki', max_output: '1Ki' }

/** Steps that show one plugin, followed by those that every chat route needs. */
export function completed(steps: string): string {
  const used = (parse(steps) as { steps: { use: string }[] }).steps.map(({ use }) => use)
  const missing = ['schema', 'route'].filter(use => !used.includes(use))
  return steps + missing.map(use => `  - use: ${use}\n`).join('')
}

export type Models = Readonly<Record<string, { readonly targets: readonly { readonly provider: string }[] }>>

/** Models that show one key, with the other required keys. */
export function withModels(models: Models) {
  const providers = Object.values(models).flatMap(({ targets }) => targets.map(({ provider }) => provider))
  return {
    ...minimal('standard'),
    providers: Object.fromEntries(providers.map(name => [name, { dialect: 'demo' }])),
    models: Object.fromEntries(Object.entries(models).map(([id, model]) => [id, { ...REST_OF_A_MODEL, ...model }])),
  }
}
