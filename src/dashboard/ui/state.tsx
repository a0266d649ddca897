/** Replacements for data: loading, empty, failed. */
import type { ComponentChildren, VNode } from 'preact'
import type { ApiError } from '../lib/api.ts'
import { duration } from '../lib/format.ts'
import type { Resource } from '../lib/use-resource.ts'
import { Button } from './button.tsx'
import { Icon, type IconName } from './icons.tsx'

interface EmptyProps {
  readonly title: string
  readonly icon?: IconName | undefined
  /** The next action. */
  readonly children?: ComponentChildren
  readonly action?: ComponentChildren
}

/** An empty list. */
export function Empty({ title, icon, children, action }: EmptyProps): VNode {
  return (
    <div class="empty">
      {icon && (
        <span class="empty-icon">
          <Icon name={icon} />
        </span>
      )}
      <p class="strong">{title}</p>
      {children && <div class="muted empty-words">{children}</div>}
      {action && <div class="row empty-action">{action}</div>}
    </div>
  )
}

interface ErrorProps {
  readonly error: ApiError
  readonly retry?: (() => void) | undefined
  /** The failure: `Failed to load the keys.` */
  readonly title?: string | undefined
}

/** An error with its advice, and the request's id for the operator. */
export function ErrorBox({ error, retry, title = 'Something went wrong' }: ErrorProps): VNode {
  return (
    <div class="note tone-bad" role="alert">
      <Icon name="error" />
      <div class="grow stack-tight">
        <p class="strong">{title}</p>
        <p>{error.message}</p>
        <ErrorFacts error={error} />
      </div>
      {retry && (
        <Button small icon="reload" onClick={retry}>
          Try again
        </Button>
      )}
    </div>
  )
}

/** The same at the top of a form, which is itself the alert. */
export function ErrorNote({ error }: { readonly error: ApiError }): VNode {
  return (
    <div class="note tone-bad">
      <Icon name="error" />
      <div class="grow stack-tight">
        <p>{error.message}</p>
        <ErrorFacts error={error} />
      </div>
    </div>
  )
}

interface NoteProps {
  readonly tone: 'info' | 'good' | 'warn' | 'bad'
  readonly title?: string | undefined
  readonly action?: ComponentChildren
  readonly children?: ComponentChildren
}

/** A notice in a box. */
export function Note({ tone, title, action, children }: NoteProps): VNode {
  const icons = { info: 'info', good: 'check', warn: 'warning', bad: 'error' } as const
  return (
    <div class={`note tone-${tone}`}>
      <Icon name={icons[tone]} />
      <div class="grow stack-tight">
        {title && <p class="strong">{title}</p>}
        {children && <div>{children}</div>}
      </div>
      {action}
    </div>
  )
}

/** Grey lines while data is loading. */
export function Loading({ lines = 4, label = 'Loading' }: { readonly lines?: number; readonly label?: string }): VNode {
  return (
    <div class="stack skeleton" role="status" aria-busy="true">
      <span class="hidden">{label}</span>
      {Array.from({ length: lines }, (_, line) => (
        <span key={line} class="skeleton-line" aria-hidden="true" />
      ))}
    </div>
  )
}

interface LoadedProps<T> {
  readonly resource: Pick<Resource<T>, 'data' | 'error' | 'reload'>
  readonly lines?: number | undefined
  readonly title?: string | undefined
  readonly children: (data: T) => ComponentChildren
}

/** The data once loaded; until then lines, or an error with a retry. */
export function Loaded<T>({ resource, lines, title, children }: LoadedProps<T>): VNode {
  const { data, error, reload } = resource
  return (
    <>
      {error && <ErrorBox error={error} retry={reload} title={title} />}
      {data !== undefined ? children(data) : !error && <Loading lines={lines ?? 4} />}
    </>
  )
}

function ErrorFacts({ error }: { readonly error: ApiError }): VNode | null {
  const facts = [
    error.retryAfterMs === null || error.retryAfterMs === 0 ? '' : `Try again in ${duration(error.retryAfterMs)}.`,
    error.requestId === null ? '' : `Request ${error.requestId}`,
  ].filter(Boolean)
  return facts.length === 0 ? null : <p class="small muted">{facts.join(' ')}</p>
}
