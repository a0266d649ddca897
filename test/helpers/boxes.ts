/** Encrypted texts (boxes) of one account, made with the store's cipher. */
import type { Boxes } from '#contract'
import { createVault } from '../../src/store/vault.ts'

/** Not random, so that tests can compare two answers. */
export function boxesOf(account: string, secret = 'a secret that only tests have, long enough'): Boxes {
  const vault = createVault(secret, size => Buffer.alloc(size))
  return {
    seal: text => vault.seal('thought', account, Buffer.from(text)).toString('base64url'),
    open: box => vault.open('thought', account, Buffer.from(box, 'base64url'))?.toString() ?? null,
  }
}
