/** A page and its boxes. */
import type { ComponentChildren, VNode } from 'preact'
import { useEffect, useId, useRef } from 'preact/hooks'
import { movesSoFar } from '../lib/router.tsx'

interface PageProps {
  /** The heading, and the title of the tab. */
  readonly title: string
  /** One sentence below the heading. */
  readonly lead?: ComponentChildren
  readonly actions?: ComponentChildren
  /** `{ href, label }` of the list that the page belongs to. */
  readonly back?: { readonly href: string; readonly label: string } | undefined
  readonly children: ComponentChildren
}

/** The frame of every page: its heading takes the focus after a navigation. */
export function Page({ title, lead, actions, back, children }: PageProps): VNode {
  const heading = useRef<HTMLHeadingElement>(null)
  useEffect(() => {
    document.title = `${title} \u00b7 Tollgate`
  }, [title])
  useEffect(() => {
    if (movesSoFar() > 0) heading.current?.focus({ preventScroll: true })
  }, [])
  return (
    <div class="stack-loose page">
      <header class="page-head">
        <div class="stack-tight page-words">
          {back && (
            <a class="page-back" href={back.href}>
              <span aria-hidden="true">&larr; </span>
              {back.label}
            </a>
          )}
          <h1 ref={heading} tabIndex={-1}>
            {title}
          </h1>
          {lead && <p class="muted">{lead}</p>}
        </div>
        {actions && <div class="row">{actions}</div>}
      </header>
      {children}
    </div>
  )
}

export interface CardProps {
  readonly title?: string | undefined
  /** Smaller text beside the title. */
  readonly hint?: ComponentChildren
  readonly actions?: ComponentChildren
  /** Removes the padding: for tables. */
  readonly flush?: boolean | undefined
  readonly class?: string | undefined
  readonly children: ComponentChildren
}

/** A box, with or without a heading. */
export function Card({ title, hint, actions, flush, class: extra = '', children }: CardProps): VNode {
  const id = useId()
  return (
    <section class={`card ${flush ? 'card-flush' : ''} ${extra}`} {...(title ? { 'aria-labelledby': id } : {})}>
      {(title || actions) && (
        <header class="card-head">
          <div class="grow">
            {title && <h2 id={id}>{title}</h2>}
            {hint && <p class="small muted">{hint}</p>}
          </div>
          {actions && <div class="row">{actions}</div>}
        </header>
      )}
      <div class="card-body">{children}</div>
    </section>
  )
}

interface StatProps {
  readonly label: string
  readonly value: ComponentChildren
  readonly hint?: ComponentChildren
}

/** One figure with its name, inside `<Stats>`. */
export function Stat({ label, value, hint }: StatProps): VNode {
  return (
    <div class="stat">
      <dt class="label">{label}</dt>
      <dd class="stat-value">{value}</dd>
      {hint && <dd class="small muted">{hint}</dd>}
    </div>
  )
}

/** A row of figures. */
export function Stats({ children }: { readonly children: ComponentChildren }): VNode {
  return (
    <div class="stats-frame">
      <dl class="stats">{children}</dl>
    </div>
  )
}

interface DetailsProps {
  readonly items: readonly (readonly [label: string, value: ComponentChildren] | null | false)[]
}

/** A list of names and values. */
export function Details({ items }: DetailsProps): VNode {
  return (
    <dl class="details">
      {items.map(
        item =>
          item && (
            <div key={item[0]}>
              <dt>{item[0]}</dt>
              <dd>{item[1]}</dd>
            </div>
          ),
      )}
    </dl>
  )
}
