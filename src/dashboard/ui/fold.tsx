/** A foldable part of a page. */
import type { ComponentChildren, VNode } from 'preact'
import { useState } from 'preact/hooks'

interface FoldProps {
  readonly title: ComponentChildren
  /** Open at first. */
  readonly open?: boolean | undefined
  readonly children: ComponentChildren
}

/** A line that unfolds more content; the content is rendered only then. */
export function Fold({ title, open: first = false, children }: FoldProps): VNode {
  const [open, setOpen] = useState(first)
  return (
    <details class="fold" open={open} onToggle={event => setOpen(event.currentTarget.open)}>
      <summary>{title}</summary>
      {open && <div class="stack fold-body">{children}</div>}
    </details>
  )
}
