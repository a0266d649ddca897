/**
 * Detects trouble in this process: a provider that is down, a failing target, a refused credential, an invalid configuration. An episode
 * of
 * trouble has one alert, at its beginning.
 */
import type { NewAlert } from '../store/alerts/alert-rows.ts'

/** A provider as operators see it. */
export interface ProviderState {
  readonly name: string
  readonly credentials: { readonly total: number; readonly refused: number }
  readonly targets: readonly { readonly target: string; readonly state: string }[]
}

/** The state of this process. */
export interface ProcessState {
  readonly providers: readonly ProviderState[]
  /** The reason why the files on disk are not in use; null: they are. */
  readonly problem: string | null
}

interface Trouble {
  readonly kind: NewAlert['kind']
  /** Unique within the kind. */
  readonly name: string
  readonly data: NewAlert['data']
}

export class Episodes {
  readonly #replica: string
  #open = new Set<string>()

  /** @param replica the name of this process, for people */
  constructor(replica: string) {
    this.#replica = replica
  }

  /** Alerts of episodes that have begun since the last call. */
  begun(state: ProcessState, nowMs: number): NewAlert[] {
    const troubles = [...state.providers.flatMap(provider => this.#troublesOf(provider)), ...problemOf(state)]
    const begun = troubles.filter(trouble => !this.#open.has(keyOf(trouble)))
    this.#open = new Set(troubles.map(keyOf))
    return begun.map(({ kind, name, data }) => ({
      id: [kind, this.#replica, name, nowMs].join(' '),
      kind,
      at: nowMs,
      account: null,
      data: { ...data, replica: this.#replica },
    }))
  }

  #troublesOf({ name: provider, credentials, targets }: ProviderState): Trouble[] {
    const { refused, total } = credentials
    const ejected = targets.filter(({ target, state }) => this.#isFailing(target, state))
    const isDown = targets.length > 0 && ejected.length === targets.length
    return [
      ...ejected.map(({ target }) => ({ kind: 'breaker_open', name: target, data: { provider, target } })),
      ...(isDown ? [{ kind: 'provider_down', name: provider, data: { provider, targets: targets.length } }] : []),
      // Each further refused credential is another episode.
      ...Array.from({ length: refused }, (_, index) => ({
        kind: 'credential_refused',
        name: `${provider} ${index + 1}`,
        data: { provider, refused: index + 1, total },
      })),
    ]
  }

  /** An ejected target counts as failing until it is well: it may be half open, and limited, in between. */
  #isFailing(target: string, state: string): boolean {
    return state === 'ejected' || (state !== 'well' && this.#open.has(keyOf({ kind: 'breaker_open', name: target })))
  }
}

function problemOf({ problem }: ProcessState): Trouble[] {
  return problem === null ? [] : [{ kind: 'reload_invalid', name: '', data: { problem } }]
}

const keyOf = ({ kind, name }: Pick<Trouble, 'kind' | 'name'>): string => `${kind} ${name}`
