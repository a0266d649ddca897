/** The names and meanings of the states of targets, and figures as text. */
import type { ProviderView, TargetHealthView } from '../../../api/views.ts'

/** How a state is shown. The word and the icon have the meaning too, not only the colour. */
export interface StateWords {
  readonly label: string
  readonly tone: 'good' | 'warn' | 'bad' | 'info'
  readonly meaning: string
}

/** All states of a target, the best first. */
export const STATES: Readonly<Record<TargetHealthView['state'], StateWords>> = {
  well: {
    label: 'Healthy',
    tone: 'good',
    meaning: 'The target answers normally. Requests are sent to it in the order of the policy.',
  },
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

/** The state of a provider: the worst of its targets, or missing credentials. */
export function providerWords(provider: ProviderView): StateWords {
  const { total, good } = provider.credentials
  if (total > 0 && good === 0)
    return {
      label: 'No credential',
      tone: 'bad',
      meaning: 'The provider rejected every credential of this gateway.',
    }
  const ejected = provider.targets.filter(target => target.state === 'ejected').length
  if (ejected > 0 && ejected === provider.targets.length)
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

/** The failures among recent attempts: `2 of 40 (5%)`. */
export function failureWords({ attempts, failed }: Pick<TargetHealthView, 'attempts' | 'failed'>): string {
  if (attempts === 0) return 'no attempts'
  if (failed === 0) return `none of ${attempts}`
  return `${failed} of ${attempts} (${Math.max(1, Math.round((failed / attempts) * 100))}%)`
}

/** The number of valid credentials: `2 good`, `1 of 2 good`, `none needed`. */
export function credentialWords({ total, good }: ProviderView['credentials']): string {
  if (total === 0) return 'none needed'
  return good === total ? `${total} good` : `${good} of ${total} good`
}

/** Makes a sentence of the gateway's reason, such as `the ledger cannot be written`. */
export function sentence(reason: string): string {
  const text = reason.charAt(0).toUpperCase() + reason.slice(1)
  return /[.!?]$/.test(text) ? text : `${text}.`
}
