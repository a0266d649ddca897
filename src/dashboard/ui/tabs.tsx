/** Tabs, a menu, and the buttons to page through a list. */
import type { ComponentChildren, VNode } from 'preact'
import { useId, useLayoutEffect, useRef, useState } from 'preact/hooks'
import type { Pages } from '../lib/use-resource.ts'
import { Button } from './button.tsx'
import { Icon, type IconName } from './icons.tsx'

interface TabsProps {
  /** The label of the tabs, read aloud. */
  readonly label: string
  readonly tabs: readonly { readonly id: string; readonly title: string; readonly content: () => ComponentChildren }[]
}

/** Tabs that work with the arrow keys, as screen readers announce. */
export function Tabs({ label, tabs }: TabsProps): VNode {
  const [open, setOpen] = useState(tabs[0]?.id)
  const list = useRef<HTMLDivElement>(null)
  const id = useId()
  const shown = tabs.find(tab => tab.id === open) ?? tabs[0]
  const keyed = (event: KeyboardEvent): void => {
    const at = tabs.findIndex(tab => tab.id === shown?.id)
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 }[event.key]
    if (to === undefined) return
    event.preventDefault()
    const index = (to + tabs.length) % tabs.length
    setOpen(tabs[index]!.id)
    list.current?.querySelectorAll<HTMLElement>('[role=tab]')[index]?.focus()
  }
  return (
    <div class="tabs">
      <div ref={list} class="tabs-list" role="tablist" aria-label={label} onKeyDown={keyed}>
        {tabs.map(tab => (
          <button
            key={tab.id}
            type="button"
            role="tab"
            class="tab"
            id={`${id}-${tab.id}`}
            aria-selected={tab.id === shown?.id}
            aria-controls={`${id}-panel`}
            tabIndex={tab.id === shown?.id ? 0 : -1}
            onClick={() => setOpen(tab.id)}
          >
            {tab.title}
          </button>
        ))}
      </div>
      <div id={`${id}-panel`} role="tabpanel" aria-labelledby={`${id}-${shown?.id}`}>
        {shown?.content()}
      </div>
    </div>
  )
}

interface SegmentsProps {
  readonly label: string
  readonly value: string
  readonly onValue: (value: string) => void
  readonly options: readonly { readonly value: string; readonly label: string; readonly icon?: IconName }[]
  /** The labels are only read aloud, and shown as titles. */
  readonly iconOnly?: boolean | undefined
}

/** A few choices that take effect at once: a range, a theme. */
export function Segments({ label, value, onValue, options, iconOnly = false }: SegmentsProps): VNode {
  return (
    // biome-ignore lint/a11y/useSemanticElements: toggle buttons, not fields of a form
    <div class="segments" role="group" aria-label={label}>
      {options.map(option => (
        <button
          key={option.value}
          type="button"
          class="button button-small button-quiet segment"
          aria-pressed={option.value === value}
          {...(iconOnly ? { title: option.label } : {})}
          onClick={() => onValue(option.value)}
        >
          {option.icon && <Icon name={option.icon} />}
          <span class={iconOnly ? 'hidden' : ''}>{option.label}</span>
        </button>
      ))}
    </div>
  )
}

interface MenuProps {
  /** The button's label: `Actions for the key laptop`. */
  readonly label: string
  readonly items: readonly (MenuItem | null | false)[]
}

interface MenuItem {
  readonly label: string
  readonly icon?: IconName | undefined
  readonly danger?: boolean | undefined
  readonly onChoose: () => void
}

/** A button with three dots that opens a menu of actions. */
export function Menu({ label, items }: MenuProps): VNode {
  const [open, setOpen] = useState(false)
  const box = useRef<HTMLDivElement>(null)
  const there = items.filter(item => item !== null && item !== false)
  useLayoutEffect(() => {
    if (!open) return
    place(box.current!)
    box.current?.querySelector<HTMLElement>('[role=menuitem]')?.focus({ preventScroll: true })
    const away = (event: Event): void => {
      if (!box.current?.contains(event.target as Node)) setOpen(false)
    }
    const moved = (): void => place(box.current!)
    document.addEventListener('pointerdown', away)
    document.addEventListener('focusin', away)
    document.addEventListener('scroll', moved, true)
    addEventListener('resize', moved)
    return () => {
      document.removeEventListener('scroll', moved, true)
      removeEventListener('resize', moved)
      document.removeEventListener('pointerdown', away)
      document.removeEventListener('focusin', away)
    }
  }, [open])
  const close = (): void => {
    setOpen(false)
    box.current?.querySelector<HTMLElement>('button')?.focus()
  }
  const keyed = (event: KeyboardEvent): void => {
    if (!open) return
    const all = [...(box.current?.querySelectorAll<HTMLElement>('[role=menuitem]') ?? [])]
    const at = all.indexOf(document.activeElement as HTMLElement)
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: all.length - 1 }[event.key]
    if (event.key === 'Escape') close()
    else if (to !== undefined) all[(to + all.length) % all.length]?.focus()
    else return
    event.preventDefault()
  }
  const choose = (item: MenuItem): void => {
    close()
    item.onChoose()
  }
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: it only handles keys of the buttons inside
    <div class="menu" ref={box} onKeyDown={keyed}>
      <Button
        variant="quiet"
        icon="more"
        iconOnly
        small
        aria-haspopup="menu"
        aria-expanded={open}
        onClick={() => setOpen(!open)}
      >
        {label}
      </Button>
      {open && (
        <div class="menu-list" role="menu" aria-label={label}>
          {there.map(item => (
            <button
              key={item.label}
              type="button"
              role="menuitem"
              class={item.danger ? 'button button-quiet menu-item menu-item-danger' : 'button button-quiet menu-item'}
              onClick={() => choose(item)}
            >
              {item.icon && <Icon name={item.icon} />}
              {item.label}
            </button>
          ))}
        </div>
      )}
    </div>
  )
}

/**
 * Positions the menu below its button, or above it near the end of the window. Its position is `fixed`, so that no table clips
 * it.
 */
function place(box: HTMLElement): void {
  const list = box.querySelector<HTMLElement>('.menu-list')!
  const { top, bottom, right } = box.getBoundingClientRect()
  const below = bottom + 4 + list.offsetHeight <= innerHeight
  list.style.top = `${below ? bottom + 4 : Math.max(0, top - 4 - list.offsetHeight)}px`
  list.style.left = `${Math.max(8, right - list.offsetWidth)}px`
}

interface PagerProps<Item> {
  readonly pages: Pick<Pages<Item>, 'page' | 'single' | 'next' | 'previous'>
  /** Whether the list is sorted by name, so that its pages are not newer and older. */
  readonly byName?: boolean | undefined
}

/** Buttons to the previous and next page; renders nothing for a single page. */
export function Pager<Item>({ pages, byName }: PagerProps<Item>): VNode | null {
  const { page, next, previous } = pages
  if (pages.single) return null
  return (
    <nav class="row pager" aria-label="Pages">
      <Button small icon="left" disabled={previous === null} onClick={() => previous?.()}>
        {byName ? 'Previous' : 'Newer'}
      </Button>
      <span class="small muted" aria-live="polite">
        Page {page}
      </span>
      <Button small disabled={next === null} onClick={() => next?.()}>
        {byName ? 'Next' : 'Older'}
      </Button>
    </nav>
  )
}
