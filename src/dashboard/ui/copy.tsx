/** Copies to the clipboard and announces it. */
import type { VNode } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { Button, type ButtonVariant } from './button.tsx'
import { ScrollArea } from './table.tsx'
import { announce } from './toast.tsx'

interface CopyProps {
  readonly text: string
  /** The button's label: `Copy the key`. */
  readonly label?: string | undefined
  readonly iconOnly?: boolean | undefined
  readonly variant?: ButtonVariant | undefined
  readonly onCopied?: (() => void) | undefined
}

export function Copy({ text, label = 'Copy', iconOnly = false, variant = 'secondary', onCopied }: CopyProps): VNode {
  const [copied, setCopied] = useState(false)
  const timer = useRef(0)
  useEffect(() => () => clearTimeout(timer.current), [])
  const copy = async (): Promise<void> => {
    if (!(await toClipboard(text))) {
      announce('The browser blocked the copy. Select the text and copy it yourself.', 'bad')
      return
    }
    announce('Copied')
    setCopied(true)
    onCopied?.()
    clearTimeout(timer.current)
    timer.current = window.setTimeout(() => setCopied(false), 2000)
  }
  return (
    <Button small={iconOnly} variant={variant} icon={copied ? 'check' : 'copy'} iconOnly={iconOnly} onClick={copy}>
      {copied && !iconOnly ? 'Copied' : label}
    </Button>
  )
}

interface SnippetProps {
  readonly text: string
  /** The name of the code: `curl command`. */
  readonly label: string
  readonly onCopied?: (() => void) | undefined
}

/** A block of code with a button that copies it. */
export function Snippet({ text, label, onCopied }: SnippetProps): VNode {
  return (
    <div class="snippet">
      <ScrollArea label={label}>
        <pre class="code-block">
          <code>{text}</code>
        </pre>
      </ScrollArea>
      <div class="snippet-copy">
        <Copy text={text} label={`Copy the ${label}`} iconOnly onCopied={onCopied} />
      </div>
    </div>
  )
}

/** The clipboard needs https or loopback; `execCommand` works elsewhere. */
async function toClipboard(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text)
    return true
  } catch {
    return selectAndCopy(text)
  }
}

function selectAndCopy(text: string): boolean {
  const before = document.activeElement
  const area = document.createElement('textarea')
  area.value = text
  area.className = 'hidden'
  // Inside an open dialog, because nothing outside it can be selected.
  const host = document.querySelector('dialog[open]') ?? document.body
  host.append(area)
  area.select()
  try {
    return document.execCommand('copy')
  } catch {
    return false
  } finally {
    area.remove()
    if (before instanceof HTMLElement) before.focus()
  }
}
