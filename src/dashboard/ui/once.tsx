/** A secret that is shown once: the dialog closes after a copy, or after the person confirms. */
import type { ComponentChildren, VNode } from 'preact'
import { useState } from 'preact/hooks'
import { Button } from './button.tsx'
import { Copy } from './copy.tsx'
import { Dialog } from './dialog.tsx'
import { Field } from './field.tsx'
import { Note } from './state.tsx'

interface OnceProps {
  readonly title: string
  /** The name of the secret: `API key`. */
  readonly label: string
  readonly secret: string
  /** Above the secret: its purpose. */
  readonly lead?: ComponentChildren
  /** Below the secret: how to use it. A function gets a callback, which it calls when its own copy button was used. */
  readonly children?: ComponentChildren | ((onCopied: () => void) => ComponentChildren)
  readonly onClose: () => void
}

/** A click outside does nothing; Escape asks first until the secret was copied. */
export function OnceDialog({ title, label, secret, lead, children, onClose }: OnceProps): VNode {
  const [copied, setCopied] = useState(false)
  const [asking, setAsking] = useState(false)
  const leave = (): void => (copied ? onClose() : setAsking(true))
  return (
    <Dialog title={title} firm wide onClose={leave}>
      <div class="stack">
        {lead}
        <Field
          label={label}
          hint="Shown only once. Tollgate stores only a digest."
          control={ids => (
            <div class="line">
              <input
                class="input mono grow"
                type="text"
                readOnly
                spellcheck={false}
                autocomplete="off"
                {...ids}
                value={secret}
                onFocus={event => event.currentTarget.select()}
                onCopy={() => setCopied(true)}
              />
              <Copy text={secret} label="Copy" variant="primary" onCopied={() => setCopied(true)} />
            </div>
          )}
        />
        {typeof children === 'function' ? children(() => setCopied(true)) : children}
        {asking && !copied && (
          <div role="alert">
            <Note
              tone="warn"
              title="You have not copied it yet"
              action={
                <Button small onClick={onClose}>
                  Close without copying
                </Button>
              }
            >
              It cannot be shown again. You can only create a new one.
            </Note>
          </div>
        )}
        <div class="row form-actions">
          <Button variant={copied ? 'primary' : 'secondary'} onClick={onClose}>
            I have copied it
          </Button>
        </div>
      </div>
    </Dialog>
  )
}
