/**
 * With many accounts and events in PostgreSQL, daily operations find their rows by an index: no table is scanned. The server's planner
 * chooses the index for each statement, so the test checks the server's own counts of reads.
 */
import { expect, test } from 'vitest'
import { beside, endLease, QUICK, run } from './beside.ts'
import { read, serve } from './daily-work.ts'
import { onPostgres, testStore } from './helpers.ts'

const MANY = 20_000

/** Accounts, each with a key and one exchange. */
const FILL = `
  INSERT INTO account (id, name, plan, created_at) SELECT 'acc_' || n, 'name ' || n, 'free', 0 FROM generate_series(1, ${MANY}) AS n;
  INSERT INTO balance SELECT 'acc_' || n, 1000, 0, 0 FROM generate_series(1, ${MANY}) AS n;
  INSERT INTO key SELECT 'key_' || n, 'acc_' || n, 'main', NULL, 0, NULL, NULL, NULL FROM generate_series(1, ${MANY}) AS n;
  INSERT INTO secret SELECT sha256(CAST('key ' || n AS BYTEA)), 'key_' || n, 'abcd', 0, NULL, NULL
    FROM generate_series(1, ${MANY}) AS n;
  INSERT INTO key_total (key) SELECT 'key_' || n FROM generate_series(1, ${MANY}) AS n;
  INSERT INTO event (id, kind, account, amount, at, key, model, source, outcome, replica)
    SELECT 'req_0' || n, kind, 'acc_' || n, 0, 0, 'key_' || n, 'm', 'reported', 'answered', 1
    FROM generate_series(1, ${MANY}) AS n, generate_series(0, 1) AS kind;
  INSERT INTO checkpoint SELECT 'req_0' || n, 1, 0, 0, 0, 0 FROM generate_series(1, ${MANY}) AS n;
  INSERT INTO usage SELECT 'acc_' || n, 0, 0, 'key_' || n, 'm', 1, 0, 0, 0, 0, 0, 0 FROM generate_series(1, ${MANY}) AS n;`

onPostgres(() => {
  test('holds, settles, receipts, a start and a takeover scan no table', async () => {
    const first = await testStore(QUICK)
    const filler = first.connect()
    filler.exec(FILL)
    filler.exec('ANALYZE')
    filler.exec('SELECT pg_stat_reset()')
    filler.close()
    await first.recover()
    const second = await beside(first)
    read(first, await serve(first, 'one'))
    await serve(second, 'two')
    endLease(first, 2)
    await expect.poll(() => first.reads.findReceipt('req_2two')).toMatchObject({ source: 'recovered' })
    await Promise.all([first.close(), second.close()])
    // A connection reports its count when it ends, at the latest.
    const connected =
      "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND application_name <> 'tollgate'"
    await expect.poll(() => run(first, connected)).toEqual([])
    const scanned = run(first, `SELECT relname FROM pg_stat_user_tables WHERE seq_tup_read >= ${MANY}`)
    expect(scanned).toEqual([])
    // Check that the server counts a scan.
    run(first, 'SELECT count(*) FROM checkpoint')
    const count = "SELECT seq_tup_read AS read FROM pg_stat_user_tables WHERE relname = 'checkpoint'"
    await expect.poll(() => Number(run(first, count)[0]!['read'])).toBeGreaterThanOrEqual(MANY)
  })
})
