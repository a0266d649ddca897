/** Addresses and servers of platforms: the configuration of the client, and settings that a server may have changed. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { checkPostgres, openPostgres, placeOf } from '../../src/store/engine/postgres/index.ts'
import { knownSentence, sentenceOf } from '../../src/store/engine/postgres/postgres-address.ts'
import { clientConfig } from '../../src/store/engine/postgres/postgres-client.ts'
import { passwordsIn } from '../../src/store/store-address.ts'
import { testDatabase } from '../helpers/postgres.ts'
import { folder, onPostgres } from './helpers.ts'

const PLAIN = { user: 'u', password: '', host: 'h', port: 5432, database: 'd', ssl: false }

test.each<[string, object]>([
  ['postgres://u@h/d', PLAIN],
  ['postgresql://u@[::1]:6000/d', { ...PLAIN, host: '::1', port: 6000 }],
  ['postgres://u:p%40s%2Fs%25@h/a%2Fb%20c', { ...PLAIN, password: 'p@s/s%', database: 'a/b c' }],
  ['postgres://u:100%zz%40@h/d', { ...PLAIN, password: '100%zz@' }],
  ['postgres://u@%2Frun%2Fpg/d', { ...PLAIN, host: '/run/pg' }],
  ['postgres://u@/d?host=/run/pg&port=6000', { ...PLAIN, host: '/run/pg', port: 6000 }],
  ['postgres:///d?host=/run/pg&user=u', { ...PLAIN, host: '/run/pg' }],
  ['postgres://u@h/d?options=-csearch_path%3Dx', { ...PLAIN, options: '-csearch_path=x' }],
  // These options are ignored: application_name identifies a live replica, and the gateway sets the limits itself.
  ['postgres://u@h/d?application_name=x&query_timeout=1&binary=true&pipeline=false&channel_binding=require', PLAIN],
  ['postgres://u@h/d?sslmode=disable', PLAIN],
  ['postgres://u@h/d?sslmode=require', { ...PLAIN, ssl: {} }],
  ['postgres://u@h/d?sslmode=verify-full&sslrootcert=system', { ...PLAIN, ssl: {} }],
  ['postgres://u@h/d?sslmode=no-verify', { ...PLAIN, ssl: { rejectUnauthorized: false } }],
  ['postgres://u@h/d?sslmode=require&uselibpqcompat=true', { ...PLAIN, ssl: { rejectUnauthorized: false } }],
])('the configuration of the client for %s', (address, expected) => {
  expect(clientConfig(address)).toEqual(expected)
})

test('files of certificates are read, and a missing one is named', () => {
  const ca = join(folder(), 'ca.pem')
  expect(() => clientConfig(`postgres://u@h/d?sslrootcert=${ca}`)).toThrow(`sslrootcert cannot be read: ENOENT`)
  writeFileSync(ca, 'the CA')
  expect(clientConfig(`postgres://u@h/d?sslrootcert=${ca}`)).toEqual({ ...PLAIN, ssl: { ca: 'the CA' } })
  const { ssl } = clientConfig(`postgres://u@h/d?sslmode=verify-ca&uselibpqcompat=true&sslrootcert=${ca}`)
  expect(ssl).toEqual({ ca: 'the CA', checkServerIdentity: expect.any(Function) })
})

test.each([
  ['postgres://u:hunter2@/d?host=/run/pg', 'postgres://u@%2Frun%2Fpg/d', ['hunter2']],
  ['postgres://h/d?user=u&password=hunter2', 'postgres://u@h/d', ['hunter2']],
  ['postgres://u:hunter2%zz%40@h/d', 'postgres://u@h/d', ['hunter2%zz%40', 'hunter2%zz@']],
])('the password in %s is recognized and not shown', (address, place, passwords) => {
  expect(placeOf(address)).toBe(place)
  expect(passwordsIn(address)).toEqual(passwords)
  expect(sentenceOf(new Error(`no ${passwords[0]} for ${address}`), address)).not.toContain('hunter2')
})

test.each<[string | undefined, string, RegExp]>([
  ['28000', 'no pg_hba.conf entry for host "h", user "u", database "d", no encryption', /Add \?sslmode=verify-full/],
  ['28000', 'no pg_hba.conf entry for host "h", user "u", database "d", SSL encryption', /Admit the user in pg_hba/],
  ['28000', 'connection requires a valid client certificate', /sslcert=FILE&sslkey=FILE/],
  ['28P01', 'password authentication failed for user "u"', /refuses the user or the password/],
  ['SELF_SIGNED_CERT_IN_CHAIN', 'self-signed certificate in certificate chain', /sslrootcert=FILE/],
  ['ERR_TLS_CERT_ALTNAME_INVALID', "Hostname/IP does not match certificate's altnames", /Write the host of the cert/],
  [undefined, 'The server does not support SSL connections', /has no TLS.*sslmode=disable/],
  [undefined, 'SASL: SCRAM-SERVER-FIRST-MESSAGE: client password must be a string', /asks for a password/],
  ['ENOENT', 'connect ENOENT /run/pg/.s.PGSQL.5432', /cannot be reached.*folder of its socket/],
  ['0A000', 'cannot use serializable mode in a hot standby', /is read-only.*Name the primary/],
  ['53300', 'sorry, too many clients already', /has no connection left.*max_connections/],
])('%s %s is reported with a remedy', (code, message, says) => {
  expect(knownSentence(Object.assign(new Error(message), { code }), 'postgres://u@h/d')).toMatch(says)
})

onPostgres(() => {
  const STRANGE = {
    bytea_output: 'escape',
    standard_conforming_strings: 'off',
    extra_float_digits: '-15',
    TimeZone: 'Asia/Kathmandu',
    DateStyle: 'German, DMY',
    IntervalStyle: 'sql_standard',
    transform_null_equals: 'on',
    default_transaction_isolation: 'serializable',
    default_transaction_deferrable: 'on',
    statement_timeout: '5ms',
    lock_timeout: '5ms',
    idle_session_timeout: '300ms',
    synchronous_commit: 'off',
  }

  test.each([false, true])('settings of a database have no effect; read-only: %s', async readOnly => {
    const { url, name, run } = await testDatabase()
    const shown = Object.keys(STRANGE).map(each => `current_setting('${each}') AS "${each}"`)
    const settings = () => {
      const database = openPostgres(url, { readOnly })
      onTestFinished(() => database.close())
      return { database, found: database.prepare(`SELECT ${shown.join(', ')}`).get() }
    }
    const { found: ordinary } = settings()
    // All at once: later connections have them, and a timeout of 5 ms.
    await run(
      Object.entries(STRANGE)
        .map(([each, value]) => `ALTER DATABASE ${name} SET ${each} = '${value}'`)
        .join('; '),
    )
    const { database, found } = settings()
    expect(found).toEqual({ ...ordinary, TimeZone: 'UTC' })
    const bytes = new Uint8Array([0, 92, 255])
    expect(database.prepare('SELECT CAST(? AS BYTEA) AS bytes, pg_sleep(0.5)').get(bytes)).toMatchObject({ bytes })
    await new Promise(resolve => setTimeout(resolve, 700))
    database.exec('BEGIN')
    expect(database.prepare('SELECT 1 AS one').get()).toEqual({ one: 1 })
    database.exec('COMMIT')
  })

  test('a user who may not make tables, or has no schema for them, is refused before anything is created', async () => {
    const [{ url, name, run }, stranger] = [await testDatabase(), 'stranger_of_addresses']
    await run(`DO $$ BEGIN CREATE ROLE ${stranger} LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$`)
    await run('REVOKE CREATE ON SCHEMA public FROM PUBLIC')
    const address = url.replace(/\/\/[^@]*@/, `//${stranger}@`)
    expect(() => checkPostgres(address)).toThrow(
      `The user ${stranger} may not create tables in the schema public of the database ${name}. Make the user the owner`,
    )
    expect(() => checkPostgres(`${url}?options=-csearch_path%3Dnowhere`)).toThrow(
      `The database ${name} has none of the schemas in search_path (nowhere). Create one for the user`,
    )
  })
})
