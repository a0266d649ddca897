/** Icons on a grid of 20. They are hidden from screen readers: the words beside them have the meaning. */
import type { VNode } from 'preact'

const PATHS = {
  overview: 'M3 10.5 10 4l7 6.5M5 9v7h4v-4h2v4h4V9',
  key: 'M12.5 11.5a4 4 0 1 0-4-4c0 .5.1 1 .3 1.5L3 14.8V17h2.5v-2H8v-2.2l1.2-1.4c.9.1 2.2.1 3.3.1ZM13.5 6.5h.01',
  usage: 'M4 16V9M8 16V5M12 16v-5M16 16V7',
  receipt: 'M5 3h10v14l-2.5-1.6L10 17l-2.5-1.6L5 17ZM8 7h4M8 10.5h4',
  ledger: 'M4 3.5h12v13H4ZM7 3.5v13M9.5 7.5h4M9.5 10.5h4M9.5 13.5h2.5',
  playground: 'M4 4h12v9H9l-4 3.5V13H4ZM7.5 7.5h5M7.5 10h3',
  models: 'M10 3l6.5 3.5L10 10 3.5 6.5ZM3.5 10 10 13.5l6.5-3.5M3.5 13.5 10 17l6.5-3.5',
  settings: 'M3 6h7M14 6h3M12 4v4M3 14h3M10 14h7M8 12v4',
  accounts: 'M3 17V7l6-3v13M9 8h8v9H3M12 11h2M12 14h2M5.5 9h1M5.5 12h1',
  people:
    'M7.5 9.5a3 3 0 1 0 0-6 3 3 0 0 0 0 6ZM2.5 16.5c0-3 2.2-4.5 5-4.5s5 1.5 5 4.5M13 9.5a2.5 2.5 0 0 0 0-5M14 12.2c2.2.3 3.5 1.8 3.5 4.3',
  exchanges: 'M3 7h12M12 4l3 3-3 3M17 13H5M8 10l-3 3 3 3',
  providers: 'M4 4h12v5H4ZM4 11h12v5H4ZM7 6.5h.01M7 13.5h.01M10 6.5h3M10 13.5h3',
  configuration: 'M5 3h7l3.5 3.5V17H5ZM12 3v4h3.5M8 10.5h5M8 13.5h5',
  token: 'M10 2.5l6.5 3v4.5c0 4-2.7 6.5-6.5 7.5-3.8-1-6.5-3.5-6.5-7.5V5.5ZM7.5 10l1.8 1.8 3.4-3.6',
  copy: 'M7.5 7.5h9v9h-9ZM4.5 12.5h-1v-9h9v1',
  check: 'M4 10.5 8 14.5 16 6',
  warning: 'M10 3.5 17.5 16.5h-15ZM10 8.5v3.5M10 14.3h.01',
  error: 'M10 2.8a7.2 7.2 0 1 0 0 14.4 7.2 7.2 0 0 0 0-14.4ZM10 6.5v4M10 13.5h.01',
  info: 'M10 2.8a7.2 7.2 0 1 0 0 14.4 7.2 7.2 0 0 0 0-14.4ZM10 9.5v4M10 6.5h.01',
  close: 'M5 5l10 10M15 5 5 15',
  menu: 'M3 5.5h14M3 10h14M3 14.5h14',
  more: 'M5 10h.01M10 10h.01M15 10h.01',
  plus: 'M10 4v12M4 10h12',
  left: 'M12 4.5 6.5 10l5.5 5.5',
  right: 'M8 4.5 13.5 10 8 15.5',
  down: 'M5 8l5 5 5-5',
  sun: 'M10 13.2a3.2 3.2 0 1 0 0-6.4 3.2 3.2 0 0 0 0 6.4ZM10 2v1.8M10 16.2V18M2 10h1.8M16.2 10H18M4.4 4.4l1.2 1.2M14.4 14.4l1.2 1.2M4.4 15.6l1.2-1.2M14.4 5.6l1.2-1.2',
  moon: 'M16.5 11.8A7 7 0 1 1 8.2 3.5a5.6 5.6 0 0 0 8.3 8.3Z',
  screen: 'M3 4h14v9H3ZM7.5 16.5h5M10 13v3.5',
  leave: 'M8 4H4v12h4M8.5 10H17M13.5 6.5 17 10l-3.5 3.5',
  reload: 'M16 10a6 6 0 1 1-1.9-4.4M16.2 3v3.4h-3.4',
  download: 'M10 3.5v9M6.5 9l3.5 3.5L13.5 9M4 16.5h12',
  search: 'M9 14.5a5.5 5.5 0 1 0 0-11 5.5 5.5 0 0 0 0 11ZM13 13l4 4',
  play: 'M6 4l10 6-10 6Z',
  pause: 'M7 4.5v11M13 4.5v11',
  stop: 'M5.5 5.5h9v9h-9Z',
  clock: 'M10 2.8a7.2 7.2 0 1 0 0 14.4 7.2 7.2 0 0 0 0-14.4ZM10 6v4.2l2.8 1.8',
  lock: 'M5 9h10v8H5ZM7 9V6.5a3 3 0 0 1 6 0V9',
  send: 'M3.5 10 16.5 4l-4 12.5-3-5ZM9.5 11.5l3-3',
  link: 'M8.5 11.5a3 3 0 0 0 4.3 0l3-3a3 3 0 0 0-4.3-4.3l-1 1M11.5 8.5a3 3 0 0 0-4.3 0l-3 3a3 3 0 0 0 4.3 4.3l1-1',
  trash: 'M4 6h12M8 6V3.5h4V6M5.5 6l.8 11h7.4l.8-11M8.5 9v5M11.5 9v5',
  eye: 'M2.5 10S5 5 10 5s7.5 5 7.5 5-2.5 5-7.5 5-7.5-5-7.5-5ZM10 12.2a2.2 2.2 0 1 0 0-4.4 2.2 2.2 0 0 0 0 4.4Z',
  external: 'M11.5 4H16v4.5M16 4l-7 7M8 5H4v11h11v-4',
} as const

/** The names of icons. */
export type IconName = keyof typeof PATHS

export function Icon({ name, class: extra = '' }: { readonly name: IconName; readonly class?: string }): VNode {
  return (
    <svg class={`icon icon-${name} ${extra}`} viewBox="0 0 20 20" aria-hidden="true" focusable="false">
      <path d={PATHS[name]} />
    </svg>
  )
}

/** A gate with a raised bar. */
export function Logo(): VNode {
  return (
    <svg class="logo" viewBox="0 0 32 32" aria-hidden="true" focusable="false">
      <rect class="logo-ground" width="32" height="32" rx="8" />
      <path class="logo-posts" d="M8 24V9.5a1.5 1.5 0 0 1 3 0V24zM21 24V9.5a1.5 1.5 0 0 1 3 0V24zM6 24h20v2H6z" />
      <path class="logo-bar" d="M11 14.2 21 11v3.1l-10 3.2z" />
    </svg>
  )
}
