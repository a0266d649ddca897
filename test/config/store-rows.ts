/** Broken addresses of the store and the state in gateway.yaml, in the form of gateway-rows.ts. */
import type { Row } from './gateway-rows.ts'

export const STORE: Row[] = [
  ['postgres', { more: 'store: ▸postgres://u:p@h' }, 'postgres: needs a host and a database; write postgres://'],
  ['postgres without a host', { more: 'store: ▸postgres://u@/d' }, 'postgres: needs a host and a database; write'],
  ['two hosts of postgres', { more: 'store: ▸postgres://u@h:1,i:2/d' }, 'postgres: takes one host; write the primary'],
  [
    'a schema of postgres',
    { more: 'store: ▸postgres://u@h/d?schema=x' },
    'postgres: the parameter "schema" is not supported; write ?options=-csearch_path%3DNAME',
  ],
  ['redis', { more: 'store: ▸redis://h' }, 'a redis store is not supported'],
  ['a state with a path', { more: 'state: ▸redis://h/a' }, 'state must be redis://HOST or rediss://HOST'],
  [
    'a password written out',
    { more: 'state: ▸redis://u:p@h' },
    'the password of the state server is written in clear here',
  ],
  [
    'a password in the store',
    { more: 'store: ▸postgres://u:p@h/d' },
    'the password of the store is written in clear here',
  ],
  [
    'a password for a socket',
    { more: 'store: ▸postgres://u:p@/d?host=/s' },
    'the password of the store is written in clear here',
  ],
  ['sqlite without a path', { more: 'store: ▸"sqlite:"' }, 'sqlite: has no path'],
  ['sqlite in memory', { more: 'store: ▸"sqlite::memory:"' }, 'a store in memory is called "memory"'],
  ['an unknown store', { more: 'store: ▸disk' }, 'store must be sqlite:PATH, postgres://'],
]
