/** Opens the store of a gateway and takes the right to be the only one that writes to it. */
import { dirname } from 'node:path'
import type { Clock } from '#contract'
import type { Configuration } from '../config/configuration.ts'
import type { Logger } from '../observe/log.ts'
import { realPath } from '../store/files.ts'
import type { LocalStore } from '../store/local-store.ts'
import { type Lock, takeLock } from '../store/lock.ts'
import { loadSecret, secretPlace } from '../store/secret.ts'
import type { openStore } from '../store/sqlite.ts'

export async function openOwnStore(
  configuration: Configuration,
  clock: Clock,
  log: Logger,
  open: typeof openStore,
): Promise<{ store: LocalStore; lock: Lock | null; secret: string }> {
  if (configuration.store === 'memory') {
    // Nothing outlives the process, so a secret of its own will do.
    const secret = configuration.secret ?? `${crypto.randomUUID()}${crypto.randomUUID()}`
    return { store: await open({ url: 'memory', secret, clock }), lock: null, secret }
  }
  const path = configuration.store.slice('sqlite:'.length)
  const lock = await takeLock(path, clock, 'serve')
  try {
    const real = realPath(path)
    const secret = loadSecret(configuration.secret, dirname(real), real)
    log.learn([secret])
    const place = secretPlace(configuration.secret, dirname(real))
    return { store: await open({ url: configuration.store, secret, secretPlace: place, clock }), lock, secret }
  } catch (error) {
    lock.release()
    throw error
  }
}
