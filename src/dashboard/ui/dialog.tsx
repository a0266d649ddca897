/** Dialogs with the browser's `<dialog>`: the focus stays inside, and returns when the dialog closes. */
import type { ComponentChildren, ComponentProps, VNode } from 'preact'
import { useId, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { focusHeading } from '../lib/router.tsx'
import { useForm } from '../lib/use-form.ts'
import { Button } from './button.tsx'
import { Form } from './field.tsx'
import { announce, Toasts } from './toast.tsx'

interface DialogProps {
  readonly title: string
  /** Called for Escape, a click outside and the close button; the caller may ask first. */
  readonly onClose: () => void
  /** Disables the click outside and the close button, for content that must not be lost. */
  readonly firm?: boolean | undefined
  readonly wide?: boolean | undefined
  /** Focuses Cancel first, so that Enter does nothing dangerous. */
  readonly careful?: boolean | undefined
  /** Called after the dialog has closed and the focus has returned. */
  readonly onClosed?: (() => void) | undefined
  readonly children: ComponentChildren
}

/** A dialog that is open while it is rendered. */
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
  // A layout effect runs before the next paint, so the focus is never lost.
  useLayoutEffect(() => {
    const dialog = element.current!
    const before = document.activeElement
    dialog.showModal()
    // The browser would focus the close button.
    const first = careful ? '.form-actions button' : '.dialog-body :is(input, select, textarea, button, a)'
    dialog.querySelector<HTMLElement>(first)?.focus()
    return () => {
      dialog.close()
      // The action may have removed the button that opened the dialog.
      if (before instanceof HTMLElement && before.isConnected) before.focus()
      closed.current?.()
    }
  }, [])
  const cancelled = (event: Event): void => {
    event.preventDefault()
    onClose()
  }
  // Chromium closes at a second Escape without a cancel event, so Escape is handled as a key.
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
          <h2 id={id} tabIndex={-1}>
            {title}
          </h2>
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

interface FormDialogProps extends ComponentProps<typeof Form> {
  readonly title: string
  /** Focuses Cancel first, so that Enter does nothing dangerous. */
  readonly careful?: boolean | undefined
  readonly onClose: () => void
  /** Called after the dialog has closed and the focus has returned. */
  readonly onClosed?: (() => void) | undefined
}

/** A dialog with one form; the component that opened it closes it. */
export function FormDialog({ title, careful, onClose, onClosed, ...form }: FormDialogProps): VNode {
  return (
    <Dialog title={title} careful={careful} onClose={onClose} onClosed={onClosed}>
      <Form onCancel={onClose} {...form} />
    </Dialog>
  )
}

interface Question {
  readonly title: string
  /** The effect of the action, with the name of its object. */
  readonly children: ComponentChildren
  /** The button's label: `Revoke the key`, not `OK`. */
  readonly confirm: string
  readonly danger?: boolean | undefined
  /** Whether the action removes the button that opened the dialog. Then the page's heading gets the focus. */
  readonly removesOpener?: boolean | undefined
  /** The dialog closes after success and shows the error after failure. */
  readonly onConfirm: () => Promise<unknown>
  /** Announced after success. */
  readonly done: string
}

/** Asks before an action that cannot be undone. */
export function ConfirmDialog(props: Question & { readonly onClose: () => void }): VNode {
  const { title, children, confirm, danger, removesOpener, onConfirm, done, onClose } = props
  const isDone = useRef(false)
  const send = async (): Promise<void> => {
    await onConfirm()
    announce(done)
    isDone.current = true
    onClose()
  }
  return (
    <FormDialog
      title={title}
      form={useForm({ initial: {}, send })}
      submit={confirm}
      danger={danger}
      onClose={onClose}
      onClosed={() => isDone.current && removesOpener && focusHeading()}
    >
      <div class="stack">{children}</div>
    </FormDialog>
  )
}

/** A confirmation for an item of a list: `ask(item)` opens the dialog. */
export function useQuestion<Item>(
  questionOf: (item: Item) => Question,
): readonly [ask: (item: Item) => void, dialog: ComponentChildren] {
  const [asked, ask] = useState<Item>()
  const close = (): void => ask(undefined)
  return [item => ask(() => item), asked !== undefined && <ConfirmDialog {...questionOf(asked)} onClose={close} />]
}
