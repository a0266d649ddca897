/** What keys are made with by default in LiteLLM, as the command lines that make such ones here. */
import { formatMoney } from '../../contract/units.ts'
import { showMoney } from '../format.ts'
import { scaled } from './decimal.ts'
import type { Fields } from './read.ts'
import type { Known, Remarks } from './remarks.ts'

/** @param defaults `litellm_settings.default_key_generate_params` */
export function keyCommands(defaults: Fields | null, remarks: Remarks): string[] {
  const models = (defaults?.list('models')?.items ?? []).flatMap(item => (item.kind === 'text' ? [item.text] : []))
  for (const item of defaults?.list('models')?.items ?? [])
    if (item.kind !== 'text') remarks.add('lost', item, 'it is no name of a model', 'key create --models')
  const budget = defaults?.text('max_budget') ?? null
  const cap = budget && scaled(budget.text, 9)
  const duration = defaults?.text('duration') ?? null
  const expires = duration && /^\d+[hd]$/.test(duration.text) ? duration.text : null
  if (budget && (!cap || cap.value === 0n)) remarks.add('lost', budget, 'a spending cap is more than $0')
  if (duration && expires === null)
    remarks.add('lost', duration, 'a key expires after hours or days', 'key create --expires 30d')
  if (budget && cap) remarks.add('changed', budget, 'a spending cap is for the life of a key, and is not renewed')
  if (defaults) remarks.rest(defaults.rest(), DEFAULTS)
  const options = [
    'NAME',
    ...(models.length > 0 ? [`--models ${models.join(',')}`] : []),
    ...(cap && cap.value > 0n ? [`--cap ${showMoney(formatMoney(cap.value)).slice(1)}`] : []),
    ...(expires ? [`--expires ${expires}`] : []),
  ]
  return ['account create TEAM --credit DOLLARS', `key create --account TEAM --name ${options.join(' ')}`]
}

const DEFAULTS: Readonly<Record<string, Known>> = {
  budget_duration: ['a spending cap is for the life of a key', 'make a new key when it is due'],
  max_parallel_requests: ['keys have no limits of their own', 'add the step concurrency: per: key'],
  team_id: ['keys belong to accounts', 'key create --account'],
  metadata: ['keys have a name and nothing else'],
}
