/** A secret that is shown once: it is copied before the dialog goes, or somebody says that they do not need it. */
import type { ComponentChildren, VNode } from 'preact'
import { useState } from 'preact/hooks'
import { Button, Copy, Dialog, Field, Note } from '../../ui/index.ts'

interface OnceProps {
  readonly title: string
  /** What it is: `Invitation link`. */
  readonly label: string
  readonly secret: string
  /** What it is for and who should get it. */
  readonly children: ComponentChildren
  readonly onClose: () => void
}

/** A click beside it and Escape ask first, as long as nothing was copied. */
export function OnceDialog({ title, label, secret, children, onClose }: OnceProps): VNode {
  const [isCopied, setCopied] = useState(false)
  const [isAsking, setAsking] = useState(false)
  return (
    <Dialog title={title} firm wide onClose={() => (isCopied ? onClose() : setAsking(true))}>
      <div class="stack">
        {children}
        <Field
          label={label}
          hint="It is shown this once. The gateway keeps only a digest of it."
          control={wired => (
            <div class="row operator-once">
              <input
                class="input mono grow"
                type="text"
                readOnly
                spellcheck={false}
                {...wired}
                value={secret}
                onFocus={event => event.currentTarget.select()}
                onCopy={() => setCopied(true)}
              />
              <Copy text={secret} label="Copy" variant="primary" onCopied={() => setCopied(true)} />
            </div>
          )}
        />
        {isAsking && !isCopied && (
          <div role="alert">
            <Note
              tone="warn"
              title="It was not copied"
              action={
                <Button small onClick={onClose}>
                  Close all the same
                </Button>
              }
            >
              It cannot be shown again. A new one can be made at any time.
            </Note>
          </div>
        )}
        <div class="form-actions">
          <Button onClick={onClose}>{isCopied ? 'Done' : 'I have copied it'}</Button>
        </div>
      </div>
    </Dialog>
  )
}
