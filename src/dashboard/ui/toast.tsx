/** Short messages at the edge of the page, also read aloud: `announce('Saved')`. */
import type { VNode } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { Icon } from './icons.tsx'

interface Message {
  readonly id: number
  readonly text: string
  readonly tone: 'good' | 'bad'
}

const SHOWN_MS = 4000
const SAID = 'tollgate:said'
let last = 0

/** Announces a message once. The delay lets a closing dialog be removed first, because the message would be removed with it. */
export function announce(text: string, tone: Message['tone'] = 'good'): void {
  last += 1
  const detail = { id: last, text, tone }
  setTimeout(() => document.dispatchEvent(new CustomEvent<Message>(SAID, { detail })))
}

/**
 * A live region must exist before its message, so the page and every dialog always render one. Content outside of an open dialog
 * is neither visible nor read aloud, so the region in the topmost dialog shows the message.
 */
export function Toasts(): VNode {
  const [messages, setMessages] = useState<readonly Message[]>([])
  const region = useRef<HTMLDivElement>(null)
  useEffect(() => {
    const said = (event: Event): void => {
      const top = [...document.querySelectorAll('dialog[open]')].at(-1) ?? null
      if (region.current?.closest('dialog') !== top) return
      const message = (event as CustomEvent<Message>).detail
      setMessages(before => [...before.slice(-2), message])
      setTimeout(() => setMessages(before => before.filter(each => each.id !== message.id)), SHOWN_MS)
    }
    document.addEventListener(SAID, said)
    return () => document.removeEventListener(SAID, said)
  }, [])
  return (
    <div ref={region} class="toasts" role="status" aria-live="polite">
      {messages.map(message => (
        <p key={message.id} class={`line toast toast-${message.tone}`}>
          <Icon name={message.tone === 'good' ? 'check' : 'error'} />
          {message.text}
        </p>
      ))}
    </div>
  )
}
