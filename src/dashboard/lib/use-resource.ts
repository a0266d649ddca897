/** Reads from the API in a component: the data, the error, and a way to read again. */
import { useCallback, useEffect, useMemo, useRef, useState } from 'preact/hooks'
import type { PageView } from '../../api/views.ts'
import { type ApiError, api, type Query, search } from './api.ts'

export interface Resource<T> {
  /** The last data. It stays while it is read again, and if that fails. */
  readonly data: T | undefined
  readonly error: ApiError | undefined
  readonly loading: boolean
  /** Reads again. */
  readonly reload: () => void
  /** Replaces the data with the answer of a change, without a request. */
  readonly replace: (data: T) => void
}

export interface ResourceOptions {
  /** Reads again at this interval while the page is visible, and when the person returns to it. */
  readonly everyMs?: number | undefined
  /** Reads again when the person returns to the page from another window or tab. */
  readonly onReturn?: boolean | undefined
}

interface State<T> {
  readonly key: string | null
  readonly data?: T | undefined
  readonly error?: ApiError | undefined
  readonly loading: boolean
}

/**
 * `useResource<AccountView>('account')`. A null path reads nothing. If only the query changes, the old data stays until the
 * new arrives. Another path begins without data, so that one resource's data never appears under another's name.
 */
export function useResource<T>(path: string | null, query?: Query, options: ResourceOptions = {}): Resource<T> {
  const address = path === null ? null : path + search(query)
  const [state, setState] = useState<State<T>>({ key: path, loading: path !== null })
  const [round, setRound] = useState(0)
  const reload = useCallback(() => setRound(number => number + 1), [])
  const replace = useCallback((data: T) => setState({ key: path, data, loading: false }), [path])

  useEffect(() => {
    if (address === null) {
      setState({ key: path, loading: false })
      return
    }
    const stop = new AbortController()
    setState(before => ({ ...(before.key === path ? before : {}), key: path, loading: true }))
    api.get<T>(address, undefined, { signal: stop.signal }).then(
      data => stop.signal.aborted || setState({ key: path, data, loading: false }),
      (error: ApiError) => stop.signal.aborted || setState(before => ({ ...before, error, loading: false })),
    )
    return () => stop.abort()
  }, [address, path, round])

  useRepeat(address === null ? undefined : options.everyMs, reload)
  useReturn(address !== null && (options.onReturn === true || options.everyMs !== undefined), reload)
  const own = state.key === path ? state : { loading: path !== null, data: undefined, error: undefined }
  return { data: own.data, error: own.error, loading: own.loading, reload, replace }
}

/** A list in pages; `<Pager pages={pages} />` shows the current one. */
export interface Pages<Item> extends Omit<Resource<readonly Item[]>, 'replace'> {
  /** Counted from 1. */
  readonly page: number
  /** Whether this is the only page, as far as is known. */
  readonly single: boolean
  /** Null: no page in this direction. */
  readonly next: (() => void) | null
  readonly previous: (() => void) | null
}

/** `usePages<ReceiptView>('receipts', { model })`: returns to the first page when the query changes. */
export function usePages<Item>(path: string | null, query?: Query, options: ResourceOptions = {}): Pages<Item> {
  const list = path === null ? null : path + search(query)
  const [place, setPlace] = useState<{ list: string | null; trail: readonly string[] }>({ list, trail: [] })
  const trail = useMemo(() => (place.list === list ? place.trail : []), [place, list])
  const { data, ...rest } = useResource<PageView<Item>>(path, { ...query, after: trail.at(-1) }, options)
  const after = data?.next ?? null
  return {
    ...rest,
    data: data?.items,
    page: trail.length + 1,
    single: trail.length === 0 && after === null,
    next: after === null || rest.loading ? null : () => setPlace({ list, trail: [...trail, after] }),
    previous: trail.length === 0 ? null : () => setPlace({ list, trail: trail.slice(0, -1) }),
  }
}

/** The current time, updated at this interval, so that "3 minutes ago" stays true. */
export function useNow(everyMs = 30_000): number {
  const [now, setNow] = useState(() => Date.now())
  const renew = useCallback(() => setNow(Date.now()), [])
  useRepeat(everyMs, renew)
  useReturn(true, renew)
  return now
}

/** An action of a button: `busy` while it runs, `error` if it failed. */
export interface Action<Arguments extends readonly unknown[]> {
  readonly run: (...values: Arguments) => Promise<boolean>
  readonly busy: boolean
  readonly error: ApiError | undefined
  readonly clear: () => void
}

/** `run` resolves to whether it succeeded. A second call during the first is ignored. */
export function useAction<Arguments extends readonly unknown[]>(
  work: (...values: Arguments) => Promise<unknown>,
): Action<Arguments> {
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<ApiError>()
  const running = useRef(false)
  const run = async (...values: Arguments): Promise<boolean> => {
    if (running.current) return false
    running.current = true
    setBusy(true)
    setError(undefined)
    try {
      await work(...values)
      return true
    } catch (caught) {
      setError(caught as ApiError)
      return false
    } finally {
      running.current = false
      setBusy(false)
    }
  }
  return { run, busy, error, clear: () => setError(undefined) }
}

function useRepeat(everyMs: number | undefined, work: () => void): void {
  useEffect(() => {
    if (everyMs === undefined) return
    const timer = setInterval(() => document.visibilityState === 'visible' && work(), everyMs)
    return () => clearInterval(timer)
  }, [everyMs, work])
}

/** Runs `work` when the person returns to the page. */
export function useReturn(active: boolean, work: () => void): void {
  const last = useRef(0)
  useEffect(() => {
    if (!active) return
    const back = (): void => {
      // A browser sends both events when its window returns: `visibilitychange` and `focus`.
      const now = performance.now()
      if (document.visibilityState !== 'visible' || now - last.current < BACK_ONCE_MS) return
      last.current = now
      work()
    }
    document.addEventListener('visibilitychange', back)
    addEventListener('focus', back)
    return () => {
      document.removeEventListener('visibilitychange', back)
      removeEventListener('focus', back)
    }
  }, [active, work])
}

const BACK_ONCE_MS = 1000
