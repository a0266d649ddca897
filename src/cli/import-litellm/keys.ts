/** Converts LiteLLM's defaults for keys to commands that create such keys. */

import { quoted } from '../shell.ts'
import { budgetOptions, type ImportedBudgets } from './litellm-budgets.ts'
import type { ModelYaml } from './models.ts'
import type { Fields, ListValue } from './read.ts'
import type { Remarks } from './remarks.ts'

interface Parts extends Pick<ImportedBudgets, 'cap' | 'ofAccounts'> {
  /** The converted models. */
  readonly models: ReadonlyMap<string, ModelYaml>
  /** Whether a wildcard covers a model of this name. */
  readonly isOfWildcard: (name: string) => boolean
}

/**
 * Returns commands for a POSIX shell, with quoted values.
 * @param defaults `litellm_settings.default_key_generate_params`
 */
export function keyCommands(defaults: Fields | null, parts: Parts, remarks: Remarks): string[] {
  const { cap, ofAccounts } = parts
  const only = modelsOf(defaults?.list('models') ?? null, parts, remarks)
  const duration = defaults?.text('duration') ?? null
  const expires = duration && /^[1-9]\d*[hd]$/.test(duration.text) ? duration.text : null
  if (duration && expires === null)
    remarks.add('lost', duration, 'a key expires after hours or days', 'key create --expires 30d')
  if (defaults) remarks.rest(defaults, 'key')
  const options = [
    'NAME',
    ...(only === null ? [] : [`--models ${only.length > 0 ? quoted(only.join(',')) : 'MODELS'}`]),
    ...(cap === null ? [] : [`--cap ${cap.slice(1)}`]),
    ...(expires ? [`--expires ${expires}`] : []),
  ]
  return [
    'account create TEAM --credit DOLLARS',
    ...ofAccounts.map(period => `account budget TEAM ${budgetOptions(period)}`),
    `key create --account TEAM --name ${options.join(' ')}`,
  ]
}

/** LiteLLM's special words in lists of models. */
const WORDS: Readonly<Record<string, string>> = {
  'all-team-models': 'it means the models of a team, but accounts have no list of models',
  'no-default-models': 'it means no model, but a key here needs at least one',
}

/** Null: all models. Empty: the listed models were not converted, so the operator must choose. */
function modelsOf(list: ListValue | null, { models, isOfWildcard }: Parts, remarks: Remarks): readonly string[] | null {
  if (list === null || list.items.length === 0) return null
  const aliases = new Set([...models.values()].flatMap(({ aliases: names }) => (names as string[] | undefined) ?? []))
  const known: string[] = []
  let hasAll = false
  for (const item of list.items) {
    const name = item.kind === 'text' ? item.text : null
    if (name === 'all-proxy-models') {
      hasAll = true
      remarks.add('changed', item, 'a key without --models can use all public models')
    } else if (name === null) remarks.add('lost', item, 'it is not the name of a model', 'key create --models')
    else if (Object.hasOwn(WORDS, name)) remarks.add('lost', item, WORDS[name]!, 'key create --models')
    else if (name.includes(',') || !(models.has(name) || aliases.has(name) || isOfWildcard(name)))
      remarks.add('lost', item, 'a key has a model that was not converted', 'key create --models', name)
    else known.push(name)
  }
  if (hasAll) return null
  if (known.length === 0)
    remarks.add('yours', list, 'none of these models was converted', 'replace MODELS by the models that a key can use')
  return known
}
