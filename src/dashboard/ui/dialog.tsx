/** Dialogs: the browser's own, so that focus stays inside and goes back where it was. */
import type { ComponentChildren, VNode } from 'preact'
import { useId, useLayoutEffect, useRef } from 'preact/hooks'
import { focusHeading } from '../lib/router.tsx'
import { type Action, useAction } from '../lib/use-resource.ts'
import { Button } from './button.tsx'
import { errorBeside, Form } from './field.tsx'
import { ErrorNote } from './state.tsx'
import { Toasts } from './toast.tsx'

interface DialogProps {
  readonly title: string
  /** Escape, a click outside, the cross: the caller decides what happens, for example asks first. */
  readonly onClose: () => void
  /** A click outside does nothing, and there is no cross: for what must not be lost. */
  readonly firm?: boolean | undefined
  readonly wide?: boolean | undefined
  /** The focus begins at Cancel: Enter at once does nothing. */
  readonly careful?: boolean | undefined
  /** After it has gone and the focus is back. */
  readonly onClosed?: (() => void) | undefined
  readonly children: ComponentChildren
}

/** Open as long as it is rendered. */
export function Dialog({
  title,
  onClose,
  firm = false,
  wide = false,
  careful = false,
  onClosed,
  children,
}: DialogProps): VNode {
  const element = useRef<HTMLDialogElement>(null)
  const pressed = useRef<EventTarget | null>(null)
  const closed = useRef(onClosed)
  closed.current = onClosed
  const id = useId()
  // In one go with the page: the focus is never nowhere.
  useLayoutEffect(() => {
    const dialog = element.current!
    const before = document.activeElement
    dialog.showModal()
    // Not the cross, which the browser would choose.
    const first = careful ? '.form-actions button' : '.dialog-body :is(input, select, textarea, button, a)'
    dialog.querySelector<HTMLElement>(first)?.focus()
    return () => {
      dialog.close()
      // The button that opened it may have gone with what was done.
      if (before instanceof HTMLElement && before.isConnected) before.focus()
      closed.current?.()
    }
  }, [])
  const cancelled = (event: Event): void => {
    event.preventDefault()
    onClose()
  }
  // Chromium closes at the second Escape without asking; so Escape is taken as a key.
  const keyed = (event: KeyboardEvent): void => {
    if (event.key === 'Escape' && !event.defaultPrevented) cancelled(event)
  }
  const released = (event: MouseEvent): void => {
    const outside = event.target === element.current && pressed.current === element.current
    if (outside && !firm) onClose()
  }
  return (
    <dialog
      ref={element}
      class={wide ? 'dialog dialog-wide' : 'dialog'}
      aria-labelledby={id}
      onCancel={cancelled}
      onKeyDown={keyed}
      onPointerDown={event => (pressed.current = event.target)}
      onClick={released}
    >
      <div class="dialog-box">
        <header class="dialog-head">
          <h2 id={id}>{title}</h2>
          {!firm && (
            <Button variant="quiet" icon="close" iconOnly small onClick={onClose}>
              Close
            </Button>
          )}
        </header>
        <div class="dialog-body">{children}</div>
      </div>
      <Toasts />
    </dialog>
  )
}

interface FormDialogProps {
  readonly title: string
  /** What the form does: it shows whether it runs, and what went wrong. */
  readonly action: Pick<Action<never>, 'busy' | 'error'>
  /** The fields that show an error of theirs themselves, as the API calls them. */
  readonly fields?: readonly string[] | undefined
  /** The button's words. */
  readonly submit: string
  readonly danger?: boolean | undefined
  /** The focus begins at Cancel: Enter at once does nothing. */
  readonly careful?: boolean | undefined
  /** In the place of an error, when there is none. */
  readonly note?: ComponentChildren
  readonly onSubmit: () => unknown
  readonly onClose: () => void
  /** After it has gone and the focus is back. */
  readonly onClosed?: (() => void) | undefined
  readonly children: ComponentChildren
}

/** A dialog with one form; who opened it closes it. */
export function FormDialog(props: FormDialogProps): VNode {
  const { title, action, fields = [], submit, danger, careful, note, onSubmit, onClose, onClosed, children } = props
  const error = errorBeside(action.error, fields)
  return (
    <Dialog title={title} careful={careful} onClose={onClose} onClosed={onClosed}>
      <Form
        onSubmit={() => void onSubmit()}
        onCancel={onClose}
        busy={action.busy}
        submit={submit}
        danger={danger}
        error={error ? <ErrorNote error={error} /> : note}
      >
        {children}
      </Form>
    </Dialog>
  )
}

interface ConfirmProps {
  readonly title: string
  /** What will happen, and to what: by name. */
  readonly children: ComponentChildren
  /** The button's words: `Revoke the key`, not `OK`. */
  readonly confirm: string
  readonly danger?: boolean | undefined
  /** What opened it goes with what is done: the page's heading takes the focus then. */
  readonly openerGoes?: boolean | undefined
  /** It closes when this has gone well, and shows the error when not. */
  readonly onConfirm: () => Promise<unknown>
  readonly onClose: () => void
}

/** Asks before something that cannot be undone. */
export function ConfirmDialog({
  title,
  children,
  confirm,
  danger,
  openerGoes,
  onConfirm,
  onClose,
}: ConfirmProps): VNode {
  const action = useAction(onConfirm)
  const done = useRef(false)
  const submit = async (): Promise<void> => {
    if (!(await action.run())) return
    done.current = true
    onClose()
  }
  return (
    <FormDialog
      title={title}
      action={action}
      submit={confirm}
      danger={danger}
      onSubmit={submit}
      onClose={onClose}
      onClosed={() => done.current && openerGoes && focusHeading()}
    >
      <div class="stack">{children}</div>
    </FormDialog>
  )
}
