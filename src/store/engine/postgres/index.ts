/** PostgreSQL for the rest of the store: loaded only when the configuration names it. */

export { placeOf } from './postgres-address.ts'
export { openPostgres } from './postgres-database.ts'
export { checkPostgres, findPostgresSchema, isPostgresStore, migratePostgres, refusePooler } from './postgres-schema.ts'
export { loadPostgresSecret } from './postgres-secret.ts'
export { isReplica, registerReplica } from './replica-writes.ts'
