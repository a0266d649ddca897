/** The root component: the session, the page of the address, and error pages. */

import { Component, type ComponentChildren, type ComponentType, type VNode } from 'preact'
import { useCallback, useEffect, useState } from 'preact/hooks'
import type { AboutView, SessionView } from '../api/views.ts'
import { Layout } from './layout.tsx'
import { ApiError, api, onSignedOut } from './lib/api.ts'
import type { PageProps } from './lib/paths.ts'
import { match, type Params, placeAfter } from './lib/paths.ts'
import { navigate, Router, usePlace } from './lib/router.tsx'
import { SessionContext, type SessionState } from './lib/session.tsx'
import { type PageRoute, ROUTES } from './routes.ts'
import { Button, ButtonLink, Empty, ErrorBox, Loading, Page } from './ui/index.ts'
import { Toasts } from './ui/toast.tsx'

export function App(): VNode {
  return (
    <Router>
      <Start />
      <Toasts />
    </Router>
  )
}

/** Loads the gateway's facts and the session before anything is drawn. */
function Start(): VNode {
  const [about, setAbout] = useState<AboutView>()
  const [session, setSession] = useState<SessionView | null>()
  const [error, setError] = useState<ApiError>()
  const load = useCallback(() => {
    setError(undefined)
    loadStart().then(([aboutNow, found]) => {
      setAbout(aboutNow)
      setSession(found)
    }, setError)
  }, [])
  useEffect(load, [load])
  useEffect(() => {
    onSignedOut(() => setSession(null))
    return () => onSignedOut(null)
  }, [])

  if (error) return <Centred>{<ErrorBox title="The dashboard failed to start" error={error} retry={load} />}</Centred>
  if (about === undefined || session === undefined)
    return <Centred>{<Loading lines={3} label="Loading Tollgate" />}</Centred>
  const state: SessionState = {
    about,
    session,
    begin: setSession,
    signOut: async () => {
      await api.delete('session')
      navigate('/sign-in')
      setSession(null)
    },
    // Updates the balance in the sidebar. If the request fails, the old balance stays.
    refresh: () => void sessionNow().then(setSession, () => {}),
  }
  return (
    <SessionContext.Provider value={state}>
      <Pages session={session} />
    </SessionContext.Provider>
  )
}

/** The page of the address, if this person may see it. */
function Pages({ session }: { readonly session: SessionView | null }): VNode {
  const { path, query } = usePlace()
  const found = match(ROUTES, path)
  const route = found?.route
  const needsSession = route?.audience !== 'anyone'
  const elsewhere = redirect(route, path, query, session)
  useEffect(() => {
    if (elsewhere !== null) navigate(elsewhere, { replace: true })
  }, [elsewhere])

  if (elsewhere !== null) return <Centred>{<Loading lines={3} />}</Centred>
  const forbidden = route?.audience === 'operator' && session?.person.role !== 'operator'
  const page =
    found === null || forbidden ? <NotFound /> : <Lazy key={path} route={found.route} params={found.params} />
  return needsSession && session !== null ? <Layout path={path}>{page}</Layout> : page
}

/** The address to redirect to; null: show the page. */
function redirect(
  route: PageRoute | undefined,
  path: string,
  query: URLSearchParams,
  session: SessionView | null,
): string | null {
  if (session === null) {
    if (route?.audience === 'anyone') return null
    const to = path + (query.size > 0 ? `?${query}` : '')
    return to === '/' ? '/sign-in' : `/sign-in?to=${encodeURIComponent(to)}`
  }
  return path === '/sign-in' || path === '/register' ? placeAfter(query.get('to')) : null
}

const loaded = new Map<PageRoute, ComponentType<PageProps>>()

/** Shows the page. Loads its file the first time. */
function Lazy({ route, params }: { readonly route: PageRoute; readonly params: Params }): VNode {
  const [, redraw] = useState(0)
  const [failed, setFailed] = useState(false)
  const Shown = loaded.get(route)
  useEffect(() => {
    if (loaded.has(route)) return
    let unmounted = false
    route.page().then(
      file => {
        loaded.set(route, file.default)
        if (!unmounted) redraw(number => number + 1)
      },
      () => !unmounted && setFailed(true),
    )
    return () => {
      unmounted = true
    }
  }, [route])
  if (failed)
    return <Broken message="A part of the page could not be loaded: the gateway may have been updated. Try again." />
  return Shown ? (
    <Boundary>
      <Shown params={params} />
    </Boundary>
  ) : (
    <Loading lines={6} />
  )
}

/** Keeps the sidebar when a page throws. */
class Boundary extends Component<{ readonly children: ComponentChildren }, { broken: boolean }> {
  override state = { broken: false }

  override componentDidCatch(error: unknown): void {
    console.error(error)
    this.setState({ broken: true })
  }

  render(): ComponentChildren {
    if (!this.state.broken) return this.props.children
    return <Broken message="An error stopped this page. Try again." />
  }
}

function Broken({ message }: { readonly message: string }): VNode {
  return (
    <ErrorBox
      title="This page cannot be shown"
      error={new ApiError({ status: 0, code: 'broken_page', message })}
      retry={() => location.reload()}
    />
  )
}

function NotFound(): VNode {
  return (
    <Page title="Page not found">
      <Empty
        icon="search"
        title="No page has this address"
        action={
          <>
            <ButtonLink href="/" variant="primary">
              Go to the overview
            </ButtonLink>
            <Button onClick={() => history.back()}>Go back</Button>
          </>
        }
      >
        The link may be old, or it may belong to another account.
      </Empty>
    </Page>
  )
}

/** Shows its content without the sidebar. */
function Centred({ children }: { readonly children: ComponentChildren }): VNode {
  return (
    <main class="gate">
      <div class="stack-loose gate-box">{children}</div>
    </main>
  )
}

/** Requests the session only if there is one: otherwise the browser would log a 401 in its console. */
async function loadStart(): Promise<readonly [AboutView, SessionView | null]> {
  const about = await api.get<AboutView>('about')
  return [about, about.signed_in ? await sessionNow() : null]
}

async function sessionNow(): Promise<SessionView | null> {
  try {
    return await api.get<SessionView>('session')
  } catch (error) {
    if (error instanceof ApiError && error.code === 'not_signed_in') return null
    throw error
  }
}
