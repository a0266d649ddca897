/** The frame around every page of a signed-in person: a sidebar, or a top bar with a drawer on small screens. */

import type { ComponentChildren, VNode } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { useSession } from './lib/session.tsx'
import { useAction, useReturn } from './lib/use-resource.ts'
import { type PageRoute, ROUTES } from './routes.ts'
import { announce, Button, Icon, Logo, Money, Note } from './ui/index.ts'
import { ThemeSwitch } from './ui/theme-switch.tsx'

interface LayoutProps {
  readonly path: string
  readonly children: ComponentChildren
}

export function Layout({ path, children }: LayoutProps): VNode {
  const { session, refresh } = useSession()
  const [open, setOpen] = useState(false)
  const opener = useRef<HTMLButtonElement>(null)
  const close = (): void => {
    setOpen(false)
    opener.current?.focus()
  }
  useChange(path, () => {
    setOpen(false)
    refresh()
  })
  useReturn(true, refresh)
  useEffect(() => {
    if (!open) return
    const keyed = (event: KeyboardEvent): void => {
      if (event.key === 'Escape') close()
    }
    // On a wide window the drawer is a sidebar again and must not lock the page.
    const wide = matchMedia('(min-width: 1000px)')
    const widened = (): void => setOpen(false)
    document.addEventListener('keydown', keyed)
    wide.addEventListener('change', widened)
    return () => {
      document.removeEventListener('keydown', keyed)
      wide.removeEventListener('change', widened)
    }
  })
  return (
    <div class="shell">
      <a class="skip" href="#content">
        Skip to the content
      </a>
      <header class="topbar" inert={open}>
        <button
          ref={opener}
          type="button"
          class="button button-quiet button-icon"
          aria-label="Menu"
          aria-expanded={open}
          aria-controls="sidebar"
          onClick={() => setOpen(true)}
        >
          <Icon name="menu" />
        </button>
        <Brand />
        <a class="topbar-balance" href="/">
          <Money value={session.account.available} owned />
          <span class="hidden"> available</span>
        </a>
      </header>
      {open && <div class="sidebar-veil" aria-hidden="true" onClick={close} />}
      <Sidebar path={path} open={open} onClose={close} />
      <main id="content" class="main" tabIndex={-1} inert={open}>
        {session.account.frozen && (
          <div class="page frozen">
            <Note tone="warn" title="This account is frozen">
              The gateway rejects its keys until an operator unfreezes the account. Its credit and keys are kept.
            </Note>
          </div>
        )}
        {children}
      </main>
    </div>
  )
}

interface SidebarProps {
  readonly path: string
  readonly open: boolean
  readonly onClose: () => void
}

function Sidebar({ path, open, onClose }: SidebarProps): VNode {
  const { session, signOut } = useSession()
  const box = useRef<HTMLElement>(null)
  const leaving = useAction(signOut)
  const leave = async (): Promise<void> => {
    if (!(await leaving.run())) announce('Could not sign out. Try again.', 'bad')
  }
  useEffect(() => {
    if (open) box.current?.querySelector<HTMLElement>('button, a')?.focus()
  }, [open])
  return (
    <aside ref={box} id="sidebar" class={open ? 'sidebar sidebar-open' : 'sidebar'} aria-label="Tollgate">
      <div class="sidebar-head">
        <Brand />
        <span class="sidebar-close">
          <Button variant="quiet" icon="close" iconOnly small onClick={onClose}>
            Close the menu
          </Button>
        </span>
      </div>
      <a class="sidebar-account" href="/">
        <span class="sidebar-name" title={session.account.name}>
          {session.account.name}
        </span>
        <span class="sidebar-balance">
          <Money value={session.account.available} owned />
          <span class="hidden"> available</span>
        </span>
      </a>
      <nav aria-label="Main">
        <NavList routes={ROUTES.filter(route => route.audience === 'person')} path={path} />
        {session.person.role === 'operator' && (
          <>
            <p class="nav-title" id="nav-operate">
              Operate
            </p>
            <NavList
              routes={ROUTES.filter(route => route.audience === 'operator')}
              path={path}
              labelledBy="nav-operate"
            />
          </>
        )}
      </nav>
      <div class="sidebar-foot">
        <div class="line sidebar-person">
          <span class="grow sidebar-email" title={session.person.email}>
            {session.person.email}
          </span>
          <Button variant="quiet" icon="leave" iconOnly small busy={leaving.busy} onClick={leave}>
            Sign out
          </Button>
        </div>
        <ThemeSwitch iconOnly />
      </div>
    </aside>
  )
}

interface NavProps {
  readonly routes: readonly PageRoute[]
  readonly path: string
  readonly labelledBy?: string
}

function NavList({ routes, path, labelledBy }: NavProps): VNode {
  return (
    <ul {...(labelledBy ? { 'aria-labelledby': labelledBy } : {})}>
      {routes.map(
        ({ path: href, nav }) =>
          nav && (
            <li key={href}>
              <a
                class="button button-quiet nav-link"
                href={href}
                {...(isWithin(path, href) ? { 'aria-current': 'page' } : {})}
              >
                <Icon name={nav.icon} />
                {nav.title}
              </a>
            </li>
          ),
      )}
    </ul>
  )
}

function Brand(): VNode {
  return (
    <a class="brand" href="/">
      <Logo />
      Tollgate
    </a>
  )
}

/**
 * Whether a page belongs to an entry of the sidebar: a receipt to the receipts. Only the overview itself belongs to the overview.
 */
function isWithin(path: string, href: string): boolean {
  return path === href || (href !== '/' && path.startsWith(`${href}/`))
}

function useChange(value: string, changed: () => void): void {
  const before = useRef(value)
  useEffect(() => {
    if (before.current === value) return
    before.current = value
    changed()
  })
}
