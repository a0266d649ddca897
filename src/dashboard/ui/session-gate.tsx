/** The layout of pages before sign-in: a single column. */
import type { ComponentChildren, VNode } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { movesSoFar } from '../lib/router.tsx'
import { useSessionState } from '../lib/session.tsx'
import { Logo } from './icons.tsx'

interface GateProps {
  readonly title: string
  readonly lead?: ComponentChildren
  /** Links to other pages, below the box. */
  readonly foot?: ComponentChildren
  readonly children: ComponentChildren
}

export function Gate({ title, lead, foot, children }: GateProps): VNode {
  const { about } = useSessionState()
  const heading = useRef<HTMLHeadingElement>(null)
  useEffect(() => {
    document.title = `${title} \u00b7 Tollgate`
  }, [title])
  useEffect(() => {
    // A form may set the focus itself.
    if (movesSoFar() > 0 && !heading.current?.closest('main')?.contains(document.activeElement))
      heading.current?.focus()
  }, [])
  return (
    <main class="gate">
      <div class="stack-loose gate-box">
        <header class="gate-head">
          <Logo />
          <div class="stack-tight">
            <h1 ref={heading} tabIndex={-1}>
              {title}
            </h1>
            {lead && <p class="muted">{lead}</p>}
          </div>
        </header>
        <div class="card">
          <div class="card-body">{children}</div>
        </div>
        <div class="gate-foot stack-tight muted">
          {foot}
          {!about.secure && (
            <p class="small">
              This connection is not encrypted, so it works on this machine only. Access from other machines needs
              https.
            </p>
          )}
        </div>
      </div>
    </main>
  )
}
