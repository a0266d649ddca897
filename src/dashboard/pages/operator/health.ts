/** A target's health in words: what its state is called, what it means, and what its figures say. */
import type { ProviderView, TargetHealthView } from '../../../api/views.ts'

/** How a state is shown. Colour is never the only sign: the word and the icon say the same. */
export interface StateWords {
  readonly label: string
  readonly tone: 'good' | 'warn' | 'bad' | 'info'
  readonly meaning: string
}

/** Every state of a target, the best first. */
export const STATES: Readonly<Record<TargetHealthView['state'], StateWords>> = {
  well: { label: 'Healthy', tone: 'good', meaning: 'Responds normally. Requests are sent to it in order.' },
  half_open: {
    label: 'Probing',
    tone: 'info',
    meaning: 'The ejection has expired. One request tests the target; if it succeeds, the target is healthy again.',
  },
  limited: {
    label: 'Limited',
    tone: 'warn',
    meaning: 'The provider rate-limited the target. Other targets are tried first until the limit expires.',
  },
  ejected: {
    label: 'Ejected',
    tone: 'bad',
    meaning:
      'The target failed repeatedly. Other targets are tried first for a period that grows with each ejection. If no other target is left, requests still go to it.',
  },
}

/** What a provider is called by its targets: the worst of their states, and whether a credential is left. */
export function providerWords(provider: ProviderView): StateWords {
  const { total, good } = provider.credentials
  if (total > 0 && good === 0)
    return {
      label: 'No credential',
      tone: 'bad',
      meaning: 'The provider rejected every credential of this gateway.',
    }
  const sick = provider.targets.filter(target => target.state === 'ejected').length
  if (sick > 0 && sick === provider.targets.length)
    return { label: 'Failing', tone: 'bad', meaning: 'Every target of this provider is ejected.' }
  const other = provider.targets.filter(target => target.state !== 'well').length
  if (other > 0)
    return {
      label: 'Degraded',
      tone: 'warn',
      meaning: `${other} of ${provider.targets.length} targets are unhealthy.`,
    }
  if (good < total) return { label: 'Degraded', tone: 'warn', meaning: `${good} of ${total} credentials are good.` }
  return { label: 'Healthy', tone: 'good', meaning: 'Every target of this provider is healthy.' }
}

/** How many of the last attempts failed: `2 of 40 (5%)`. */
export function failureWords({ attempts, failed }: Pick<TargetHealthView, 'attempts' | 'failed'>): string {
  if (attempts === 0) return 'no attempts'
  if (failed === 0) return `none of ${attempts}`
  return `${failed} of ${attempts} (${Math.max(1, Math.round((failed / attempts) * 100))}%)`
}

/** How many credentials are good: `2 good`, `1 of 2 good`, `none needed`. */
export function credentialWords({ total, good }: ProviderView['credentials']): string {
  if (total === 0) return 'none needed'
  return good === total ? `${total} good` : `${good} of ${total} good`
}

/** A reason as the gateway gives it, `the ledger cannot be written`, so that more can follow. */
export function sentence(reason: string): string {
  const text = reason.charAt(0).toUpperCase() + reason.slice(1)
  return /[.!?]$/.test(text) ? text : `${text}.`
}
