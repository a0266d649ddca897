/** Everything that a plugin may import: `tollgate/plugin`, inside this repository `#contract`. Leans on nobody. */
export * from './chat.ts'
export * from './dialect.ts'
export * from './errors.ts'
export * from './exchange.ts'
export * from './inbound.ts'
export * from './plugin.ts'
export * from './store.ts'
export * from './units.ts'
