/** A loaded policy, before the order of its steps is checked. */
import type { AnyPlugin, FactName, RouteKind } from '#contract'
import type { PolicyConfig, Position } from '../configuration.ts'
import type { Source } from '../yaml/source.ts'

/** A step with its plugin. */
export interface LoadedStep {
  /** `/steps/3` */
  readonly address: string
  readonly id: string
  readonly plugin: AnyPlugin
  readonly builtIn: boolean
  readonly foreign: boolean
  readonly settings: unknown
  /** By the kinds of the routes that use the policy. */
  readonly needs: ReadonlyMap<RouteKind, readonly FactName[]>
  /** Facts that no earlier step may give, by the same kinds. */
  readonly before: ReadonlyMap<RouteKind, readonly FactName[]>
  /** The names of plugins whose steps must come later. */
  readonly precedes: readonly string[]
  readonly gives: readonly FactName[]
  /** Whether it answers or refuses every request. */
  readonly ends: boolean
  readonly mode: 'enforce' | 'shadow' | 'off'
  readonly onError: 'refuse' | 'skip'
  readonly when: string | null
  /** Why it may not run or finish, so that its facts do not count; null if it always gives them. */
  readonly weakness: string | null
  readonly position: Position
}

export interface LoadedPolicy {
  readonly name: string
  readonly source: Source
  readonly steps: readonly LoadedStep[]
  /** Whether every step's plugin was found. If not, the facts of the policy are unknown. */
  readonly complete: boolean
  /** Missing facts, which were reported. */
  readonly missingFacts: ReadonlySet<FactName>
  /** Null if there are problems. */
  readonly config: PolicyConfig | null
}
