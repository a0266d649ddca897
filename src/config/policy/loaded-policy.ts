/** A policy as its file was read, before the order of its steps is checked. */
import type { AnyPlugin, FactName, RouteKind } from '#contract'
import type { PolicyConfig, Position } from '../configuration.ts'
import type { Source } from '../yaml/source.ts'

/** A step whose plugin was found. */
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
  /** Facts that no earlier step may have given; by the same kinds. */
  readonly before: ReadonlyMap<RouteKind, readonly FactName[]>
  /** Names of plugins behind whose steps it cannot stand. */
  readonly precedes: readonly string[]
  readonly gives: readonly FactName[]
  /** Whether no request comes past it: it answers or refuses each one. */
  readonly ends: boolean
  readonly mode: 'enforce' | 'shadow' | 'off'
  readonly onError: 'refuse' | 'skip'
  readonly when: string | null
  /** Why it may not run to its end, so that it counts as giving nothing; null when it surely gives. */
  readonly weakness: string | null
  readonly position: Position
}

export interface LoadedPolicy {
  readonly name: string
  readonly source: Source
  readonly steps: readonly LoadedStep[]
  /** Whether every step's plugin was found: if not, nobody knows what the policy gives. */
  readonly complete: boolean
  /** Facts that a step needs in vain, which was reported. */
  readonly missed: ReadonlySet<FactName>
  /** Null when anything is wrong. */
  readonly config: PolicyConfig | null
}
